package main

import (
	"os"

	"github.com/hashicorp/go-plugin"
	"github.com/sirupsen/logrus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/hookhost/hookhost/hostapi"
)

// serveWith serves the hook with something in front of its streams.
func serveWith(streams grpc.StreamServerInterceptor) {
	log := logrus.New()
	log.SetOutput(os.Stderr)
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: hostapi.Handshake,
		Plugins:         plugin.PluginSet{hostapi.PluginName: &hostapi.Plugin{New: newHook, Log: log}},
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(opts, grpc.StreamInterceptor(streams))...)
		},
	})
}

// without has a call answered as by a program that does not know it.
func without(method string) grpc.StreamServerInterceptor {
	return func(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		if info.FullMethod == method {
			return status.Errorf(codes.Unimplemented, "unknown method %s", method)
		}
		return next(srv, s)
	}
}

// lies sends what hostapi would not let a hook tell. The function has no access to the messages,
// but on the wire an Any is a Notice (field 1: text, field 2: bytes).
func lies(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if info.FullMethod != "/hookhost.v1.Hook/Notices" {
		return next(srv, s)
	}
	for {
		for _, n := range []*anypb.Any{
			{TypeUrl: "99.srv", Value: []byte(`{"job_stderr":["of a job that is not here"]}`)},
			{TypeUrl: "../1.srv", Value: []byte(`{"job_stderr":["of no job"]}`)},
			{TypeUrl: "1.srv", Value: []byte(`{"job_stderr":["\u001b[2Jgone"]}`)},
			{TypeUrl: "1.srv", Value: []byte(`{"job_std`)},
		} {
			if err := s.SendMsg(n); err != nil {
				return err
			}
		}
	}
}
