// Command kube-router is kube-router's firewall, which enforces NetworkPolicy, without its BGP router and its service
// proxy: the CNI plugin routes and kube-proxy proxies. It takes kube-router's flags and ends when it is told to.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/cloudnativelabs/kube-router/v2/pkg/controllers/netpol"
	"github.com/cloudnativelabs/kube-router/v2/pkg/healthcheck"
	"github.com/cloudnativelabs/kube-router/v2/pkg/options"
	"github.com/cloudnativelabs/kube-router/v2/pkg/version"
	"github.com/spf13/pflag"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	config := options.NewKubeRouterConfig()
	config.AddFlags(pflag.CommandLine)
	pflag.Parse()
	if config.Version {
		version.PrintVersion(false)
		return
	}
	// What does not run sends no heartbeats and must not be waited for.
	config.RunFirewall, config.RunRouter, config.RunServiceProxy, config.RunLoadBalancer = true, false, false, false
	stop := make(chan struct{})
	firewall, err := start(config, stop)
	if err != nil {
		fmt.Fprintln(os.Stderr, "kube-router:", err)
		os.Exit(1)
	}
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGINT, syscall.SIGTERM)
	<-told
	close(stop)
	firewall.Wait()
}

// start runs the firewall and the report of its health, once the API server's objects are known, until stop closes.
func start(config *options.KubeRouterConfig, stop chan struct{}) (*sync.WaitGroup, error) {
	access, err := clientcmd.BuildConfigFromFlags(config.Master, config.Kubeconfig)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(access)
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods().Informer()
	namespaces := factory.Core().V1().Namespaces().Informer()
	policies := factory.Networking().V1().NetworkPolicies().Informer()
	factory.Start(stop)
	for kind, known := range factory.WaitForCacheSync(stop) {
		if !known {
			return nil, fmt.Errorf("%v could not be listed", kind)
		}
	}
	tables, sets, err := netpol.NewIPTablesHandlers(config)
	if err != nil {
		return nil, err
	}
	controller, err := netpol.NewNetworkPolicyController(
		client, config, pods, policies, namespaces, &sync.Mutex{}, tables, sets)
	if err != nil {
		return nil, err
	}
	handlers := map[cache.SharedIndexInformer]cache.ResourceEventHandler{
		pods: controller.PodEventHandler, namespaces: controller.NamespaceEventHandler,
		policies: controller.NetworkPolicyEventHandler,
	}
	for informer, handler := range handlers {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return nil, err
		}
	}
	health, err := healthcheck.NewHealthController(config)
	if err != nil {
		return nil, err
	}
	health.SetAlive()
	heartbeats := make(chan *healthcheck.ControllerHeartbeat, 10)
	running := &sync.WaitGroup{}
	running.Add(3)
	go health.RunServer(stop, running)
	go health.RunCheck(heartbeats, stop, running)
	go controller.Run(heartbeats, stop, running)
	return running, nil
}
