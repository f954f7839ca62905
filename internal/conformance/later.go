package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// later adds to each call what a later version of hookhost may add. This is a field of the message,
// a key of the event with size bytes of text, and a key of its job.
func later(size int) grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
		call grpc.UnaryInvoker, opts ...grpc.CallOption,
	) error {
		message, is := req.(proto.Message)
		if !is || !strings.HasPrefix(method, "/hookhost.v1.Hook/") {
			return call(ctx, method, req, reply, cc, opts...)
		}
		message = proto.Clone(message)
		m := message.ProtoReflect()
		m.SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 100, protowire.BytesType), "of a later version"))
		if event := m.Descriptor().Fields().ByName("request"); event != nil {
			text, err := laterEvent(m.Get(event).Bytes(), size)
			if err != nil {
				return err
			}
			m.Set(event, protoreflect.ValueOfBytes(text))
		}
		return call(ctx, method, message, reply, cc, opts...)
	})
}

// laterEvent adds the key to the JSON of an event.
func laterEvent(text []byte, size int) ([]byte, error) {
	var event, job map[string]json.RawMessage
	if err := json.Unmarshal(text, &event); err != nil {
		return nil, fmt.Errorf("decode event: %w", err)
	}
	event["of_a_later_version"] = json.RawMessage(`{"text": "` + strings.Repeat("x", size) + `"}`)
	if event["job"] != nil {
		if err := json.Unmarshal(event["job"], &job); err != nil {
			return nil, fmt.Errorf("decode job: %w", err)
		}
		job["of_a_later_version"] = json.RawMessage(`["x"]`)
		inner, err := json.Marshal(job)
		if err != nil {
			return nil, err
		}
		event["job"] = inner
	}
	return json.Marshal(event)
}
