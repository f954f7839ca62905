package report

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Sizes in a picture. Marks and texts are in CSS pixels, whatever its width is. Lines are relative
// to the drawing, which is stretched.
const (
	pictureTop    = 18.0 // pixels above the drawing
	pictureHeight = 112.0
	acrossParts   = 1000.0
	downParts     = 100.0
)

// seriesRounding is how much a value of a series may be too great by rounding.
const seriesRounding = 0.001

// picture is a chart as the template document.html draws it.
type picture struct {
	Title string
	Of    string // what a point of a line is
	Lines []pictureLine
	Limit *pictureMark
	Rows  []pictureMark // of the value axis
	Times []pictureMark
	// Granted means that the limit is there to be used up, and is no reason to worry.
	Granted bool
	Filled  bool
	Values  []readout
}

type pictureLine struct {
	Class     string
	Name      string
	Most      string
	Path, Low string // Low is Path closed along the axis
}

type pictureMark struct {
	At     string // pixels down, or percent across
	TextAt string
	Anchor string // of a text on the time axis: start, middle or end
	Text   string
}

// draw makes the picture of a chart. from and to are the same for all charts of a report.
func (c chart) draw(from, to time.Time) picture {
	most := c.most()
	top := c.unit.top(most)
	if c.limit != nil && *c.limit > 0 && !(most > *c.limit*(1+seriesRounding)) {
		top = *c.limit
	}
	pic := picture{Title: printable(c.title), Of: c.meaning(), Filled: len(c.lines) == 1 || c.title == "Memory"}
	pic.Rows = []pictureMark{beside(1, c.unit.text(top)), beside(0.5, c.unit.text(top/2)), beside(0, "0")}
	if c.limit != nil {
		at := downTo(*c.limit / top)
		pic.Limit = &pictureMark{At: coordinate(at), TextAt: coordinate(at - 5), Text: "limit " + c.unit.text(*c.limit)}
		if pic.Granted = c.granted != nil; pic.Granted {
			pic.Limit.Text = c.granted(*c.limit)
		}
		if c.hosts > 1 {
			pic.Limit.Text += " each"
		}
	}
	for _, m := range timeMarks(from, to) {
		pic.Times = append(pic.Times, across(m))
	}
	for i, l := range c.lines {
		line := pictureLine{Class: "l" + strconv.Itoa(i+1), Name: printable(l.name), Most: "not measured"}
		if v := l.most(); !math.IsNaN(v) {
			switch {
			case l.peak != nil:
				line.Most = c.unit.text(max(v, *l.peak)) + " peak"
			case l.gauge:
				line.Most = c.unit.text(v) + " peak"
			default:
				line.Most = c.unit.text(v) + " at most"
			}
		}
		line.Path, line.Low = l.paths(from.Unix(), to.Unix(), top)
		pic.Lines = append(pic.Lines, line)
	}
	pic.Values = c.readouts(from, to)
	return pic
}

// downTo returns the distance from the top of the picture, in pixels, of a part of the axis.
func downTo(part float64) float64 { return pictureTop + (1-part)*pictureHeight }

// beside returns a mark of the value axis, with its text beside it.
func beside(part float64, text string) pictureMark {
	return pictureMark{At: coordinate(downTo(part)), TextAt: coordinate(downTo(part) + 4), Text: text}
}

func across(m mark) pictureMark {
	anchor := "middle"
	if m.at < 0.06 {
		anchor = "start"
	} else if m.at > 0.94 {
		anchor = "end"
	}
	return pictureMark{At: coordinate(100 * m.at), Anchor: anchor, Text: m.text}
}

// paths returns the line as an SVG path, and the same closed along the axis. An unmeasured value is
// a gap, and a value between two gaps a dot.
//
// gonum/plot has fixed colours on white and 7.7 MB of fonts. go-analyze/charts takes CSS classes,
// but it panics at an unmeasured value, and its texts shrink with the picture.
func (l chartLine) paths(from, to int64, top float64) (line, closed string) {
	var path, low strings.Builder
	scale := acrossParts / float64(to-from)
	first, last := "", ""
	end := func() {
		if first != "" {
			low.WriteString("L" + last + " 100L" + first + " 100Z")
		}
		first = ""
	}
	for i, t := range l.times {
		v := l.values[i]
		if math.IsNaN(v) || math.IsInf(v, 0) {
			end()
			continue
		}
		x := coordinate(float64(t-from) * scale)
		point := x + " " + coordinate(downParts*(1-min(max(v/top, 0), 1)))
		if first == "" {
			path.WriteString("M" + point + "h0")
			low.WriteString("M" + point)
			first = x
		} else {
			path.WriteString("L" + point)
			low.WriteString("L" + point)
		}
		last = x
	}
	end()
	return path.String(), low.String()
}

// coordinate has one decimal: a tenth of a pixel.
func coordinate(v float64) string { return trimmed(v, 1) }
