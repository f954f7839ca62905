package main

import (
	"context"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/hookhost/hookhost/hostapi"
)

// nonsense speaks the protocol by hand. The type has no access to the messages. On the wire a
// FieldMask is a ConfigureReply (field 1: strings) and a BytesValue a HandleReply (field 1: bytes).
type nonsense struct{ plugin.NetRPCUnsupportedPlugin }

func serveNonsense() {
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: hostapi.Handshake,
		Plugins:         plugin.PluginSet{hostapi.PluginName: nonsense{}},
		GRPCServer:      plugin.DefaultGRPCServer,
	})
}

func (nonsense) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, nil
}

func (nonsense) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	configure := new(fieldmaskpb.FieldMask)
	for _, e := range hostapi.Events() {
		configure.Paths = append(configure.Paths, string(e))
	}
	outcome := wrapperspb.Bytes([]byte(`{"reject": fal`))
	if start() == "misspelt" {
		outcome = wrapperspb.Bytes([]byte(`{"rejct": true, "message": "no"}`))
	}
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: "hookhost.v1.Hook",
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{
			{MethodName: "Configure", Handler: always(configure)},
			{MethodName: "Handle", Handler: always(outcome)},
		},
	}, nil)
	return nil
}

func always(reply any) grpc.MethodHandler {
	return func(any, context.Context, func(any) error, grpc.UnaryServerInterceptor) (any, error) {
		return reply, nil
	}
}
