package hostapi

import (
	"context"
	"errors"

	plugin "github.com/hashicorp/go-plugin"
	"github.com/sirupsen/logrus"
	"google.golang.org/grpc"

	"github.com/hookhost/hookhost/hostapi/internal/hookpb"
)

const (
	// ProtocolVersion is the version of the calls between hookhost and a hook's program. It
	// increases when an older program would no longer be understood. A new event or a new key of
	// the JSON does not change it.
	ProtocolVersion = 1

	// PluginName is the key of Plugin in a go-plugin PluginSet.
	PluginName = "hook"

	// MaxMessage bounds one message between hookhost and a hook, in bytes.
	MaxMessage = 64 << 20

	// Window is how many bytes of a message either side may send before the other has read them.
	// The window is fixed: gRPC uses pings to find the best size for a network, which a local
	// socket does not need.
	Window = 1 << 20
)

// Handshake is what hookhost and a hook's program agree on before the first call. The cookie keeps
// people from starting a hook by accident; it is not a security measure.
var Handshake = plugin.HandshakeConfig{
	ProtocolVersion:  ProtocolVersion,
	MagicCookieKey:   "HOOKHOST_HOOK",
	MagicCookieValue: "6f0c5f1d-hook-of-hookhost",
}

// Plugin implements both ends of a hook for go-plugin. The host's end needs no field; dispensing
// PluginName returns a *Client.
type Plugin struct {
	plugin.NetRPCUnsupportedPlugin

	New func(*Setup) (any, error) // the hook's end: makes the hook when Configure comes
	Log *logrus.Logger            // the hook's end: Setup.Log writes here; its level is set by Configure
}

var _ plugin.GRPCPlugin = (*Plugin)(nil)

// GRPCServer registers the hook's end.
func (p *Plugin) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	if p.New == nil || p.Log == nil {
		return errors.New("serve hook: New and Log must be set")
	}
	hookpb.RegisterHookServer(s, &server{newHook: p.New, log: p.Log})
	return nil
}

// GRPCClient returns the host's end, a *Client.
func (p *Plugin) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return &Client{hook: hookpb.NewHookClient(conn)}, nil
}
