package conformance

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/hookhost/hookhost/hostapi"
)

// replies remembers the JSON of the last outcome, as the program sent it.
func (s *session) replies() grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
		call grpc.UnaryInvoker, opts ...grpc.CallOption,
	) error {
		err := call(ctx, method, req, reply, cc, opts...)
		if message, is := reply.(proto.Message); is && strings.HasSuffix(method, "/Handle") {
			m := message.ProtoReflect()
			if outcome := m.Descriptor().Fields().ByName("outcome"); outcome != nil {
				raw := m.Get(outcome).Bytes()
				s.raw.Store(&raw)
			}
		}
		return err
	})
}

// lastReply returns the JSON of the last outcome, nil if there is none.
func (s *session) lastReply() []byte {
	if raw := s.raw.Load(); raw != nil {
		return *raw
	}
	return nil
}

// remarks returns what the contract allows in the answer, but its author has probably not meant.
func (a answer) remarks() []string {
	if a.out == nil {
		return nil
	}
	list := unknownKeys(a.raw, reflect.TypeFor[hostapi.Outcome](), "")
	switch {
	case a.out.Reject && a.out.Message == "":
		list = append(list, "reject without a message: nobody learns why")
	case !a.out.Reject && a.out.Message != "" && a.event.StopsAtReject():
		list = append(list, "message without reject: the event is accepted, and nobody reads the message")
	}
	for _, texts := range []struct {
		key string
		n   int
	}{{"notes", len(a.out.Notes)}, {"job_stderr", len(a.out.JobStderr)}} {
		if texts.n > hostapi.MaxTexts {
			list = append(list, fmt.Sprintf("%d %s: a job's record keeps %d", texts.n, texts.key, hostapi.MaxTexts))
		}
	}
	return list
}
