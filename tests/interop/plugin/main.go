// A device plugin for a real kubelet: it has COUNT devices of RESOURCE, and gives a container that gets one the file LIBRARY at PLACE, read-only, as plugins of real devices give
// their driver's libraries.
//
// usage: plugin FOLDER RESOURCE COUNT LIBRARY PLACE     (FOLDER has the kubelet's socket)
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

type plugin struct {
	api.UnimplementedDevicePluginServer
	resource, library, place string
	count                    int
}

func (p *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

func (p *plugin) ListAndWatch(_ *api.Empty, stream api.DevicePlugin_ListAndWatchServer) error {
	answer := &api.ListAndWatchResponse{}
	for i := 0; i < p.count; i++ {
		answer.Devices = append(answer.Devices, &api.Device{ID: fmt.Sprintf("%s-%d", strings.ReplaceAll(p.resource, "/", "-"), i), Health: api.Healthy})
	}
	if err := stream.Send(answer); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func (p *plugin) Allocate(_ context.Context, asked *api.AllocateRequest) (*api.AllocateResponse, error) {
	answer := &api.AllocateResponse{}
	for range asked.ContainerRequests {
		mount := &api.Mount{HostPath: p.library, ContainerPath: p.place, ReadOnly: true}
		answer.ContainerResponses = append(answer.ContainerResponses, &api.ContainerAllocateResponse{Mounts: []*api.Mount{mount}})
	}
	return answer, nil
}

func serve(p *plugin, folder string) error {
	name := "sijil-" + strings.ReplaceAll(p.resource, "/", "-") + ".sock"
	path := filepath.Join(folder, name)
	_ = os.Remove(path)
	door, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, p)
	go func() {
		kubelet, err := grpc.NewClient("unix://"+filepath.Join(folder, "kubelet.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			log.Fatal(err)
		}
		register := &api.RegisterRequest{Version: api.Version, Endpoint: name, ResourceName: p.resource, Options: &api.DevicePluginOptions{}}
		if _, err := api.NewRegistrationClient(kubelet).Register(context.Background(), register); err != nil {
			log.Fatal(err)
		}
		fmt.Println("registered")
	}()
	return server.Serve(door)
}

func main() {
	if len(os.Args) != 6 {
		log.Fatal("usage: plugin FOLDER RESOURCE COUNT LIBRARY PLACE")
	}
	count, err := strconv.Atoi(os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(serve(&plugin{resource: os.Args[2], count: count, library: os.Args[4], place: os.Args[5]}, os.Args[1]))
}
