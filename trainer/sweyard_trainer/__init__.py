"""The learner: gateway, engines, rollouts, algorithm, FSDP2, weight sync, checkpoints."""
