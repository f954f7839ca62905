package hookpb

import (
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// Each field has its length in front, as hook.proto promises to programs without a protobuf
// library.
func TestEachFieldHasItsLengthInFront(t *testing.T) {
	messages := File_hook_proto.Messages()
	for i := range messages.Len() {
		fields := messages.Get(i).Fields()
		for j := range fields.Len() {
			switch f := fields.Get(j); f.Kind() {
			case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind:
			default:
				t.Errorf("%s is of kind %s", f.FullName(), f.Kind())
			}
		}
	}
}
