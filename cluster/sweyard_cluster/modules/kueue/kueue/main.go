// Command kueue is Kueue's queues, scheduler and webhooks, without what it has for kinds of jobs of others, for other
// clusters and for metrics: who makes Workloads of its own needs no more. Its configuration is a file of Kueue's format.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	settings "sigs.k8s.io/kueue/apis/config/v1beta2"
	"sigs.k8s.io/kueue/apis/kueue/v1beta1"
	"sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/cache/queue"
	cache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/config"
	"sigs.k8s.io/kueue/pkg/constants"
	"sigs.k8s.io/kueue/pkg/controller/core"
	"sigs.k8s.io/kueue/pkg/controller/core/indexer"
	"sigs.k8s.io/kueue/pkg/scheduler"
	"sigs.k8s.io/kueue/pkg/scheduler/preemption/expectations"
	"sigs.k8s.io/kueue/pkg/version"
	"sigs.k8s.io/kueue/pkg/webhooks"
)

func main() {
	file := flag.String("config", "", "file with a Configuration of config.kueue.x-k8s.io")
	showVersion := flag.Bool("version", false, "print the version and end")
	flag.Parse()
	if *showVersion {
		fmt.Println(version.GitVersion)
		return
	}
	ctrl.SetLogger(zap.New())
	if err := run(ctrl.SetupSignalHandler(), *file); err != nil {
		fmt.Fprintln(os.Stderr, "kueue:", err)
		os.Exit(1)
	}
}

// run works until the context ends; the API server is that of the flag --kubeconfig.
func run(ctx context.Context, file string) error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, settings.AddToScheme, v1beta1.AddToScheme, v1beta2.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	options, chosen, err := config.Load(scheme, file)
	if err != nil {
		return err
	}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(chosen.FeatureGates); err != nil {
		return err
	}
	options.Metrics.BindAddress, options.HealthProbeBindAddress = "0", "0"
	config.AddWebhookSettingsTo(&options, &chosen)
	access, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	manager, err := ctrl.NewManager(access, options)
	if err != nil {
		return err
	}
	if err := setUp(ctx, manager, &chosen); err != nil {
		return err
	}
	return manager.Start(ctx)
}

// setUp gives the manager its parts, which all see one cache of quotas and one of queues.
func setUp(ctx context.Context, manager ctrl.Manager, chosen *settings.Configuration) error {
	quotas := cache.New(manager.GetClient())
	requeuer := queue.NewRequeuer()
	preempted := expectations.New()
	queues := queue.NewManager(manager.GetClient(), quotas, requeuer, queue.WithPreemptionExpectations(preempted))
	if err := indexer.Setup(ctx, manager.GetFieldIndexer()); err != nil {
		return err
	}
	if kind, err := core.SetupControllers(manager, queues, quotas, chosen, nil, preempted, nil); err != nil {
		return fmt.Errorf("controller of %s: %w", kind, err)
	}
	if kind, err := webhooks.Setup(manager, nil); err != nil {
		return fmt.Errorf("webhook of %s: %w", kind, err)
	}
	recorder := manager.GetEventRecorderFor(constants.AdmissionName)
	place := scheduler.New(queues, quotas, manager.GetClient(), recorder, scheduler.WithPreemptionExpectations(preempted))
	if err := manager.Add(requeuer); err != nil {
		return err
	}
	if err := manager.Add(place); err != nil {
		return err
	}
	go queues.CleanUpOnContext(ctx)
	go quotas.CleanUpOnContext(ctx)
	return nil
}
