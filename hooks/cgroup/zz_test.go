package main
import ("testing";"time";"fmt";"github.com/hookhost/hookhost/hostapi")
func TestZZ(t *testing.T) {
	n := realNode(t, nil)
	for _, age := range []int{0,5,20,40,60,80,100,120,150,200,400} {
		var worstP, worstE, sumP, sumE time.Duration
		for range 12 {
			n.do(hostapi.EventBegin, "1.srv")
			time.Sleep(time.Duration(age)*time.Millisecond)
			a := time.Now()
			n.do(hostapi.EventEpilogue, "1.srv")
			b := time.Now()
			n.do(hostapi.EventEnd, "1.srv")
			c := time.Now()
			worstP, worstE = max(worstP, b.Sub(a)), max(worstE, c.Sub(b))
			sumP += b.Sub(a); sumE += c.Sub(b)
		}
		fmt.Printf("age %3d ms: epilogue %v max %v, end %v max %v\n", age, sumP/12, worstP, sumE/12, worstE)
	}
}
