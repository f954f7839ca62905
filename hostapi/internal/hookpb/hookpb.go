// Package hookpb holds the messages between hookhost and a hook's program, generated from
// hook.proto of hostapi.
package hookpb

//go:generate protoc -I ../.. --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative hook.proto
