#!/usr/bin/env bash
# Set-up, build, then a two-process training run of ACT on the bundled dataset, a resume from its checkpoint, and where
# everything is. Takes the folder for the results as its only argument (default outputs/demo).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=${1:-outputs/demo}
[ ! -e "$out" ] || { echo "demo: $out exists; remove it or give another folder: tools/demo.sh FOLDER" >&2; exit 2; }

tools/setup.sh
cmake --preset release >/dev/null
cmake --build --preset release --target lr-launch lr-train lr-ctl
bin=build/release/bin

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }

act=(--policy.type=act --policy.device=cpu --policy.push_to_hub=false --policy.pretrained_backbone_weights=null
  --policy.dim_model=32 --policy.n_heads=2 --policy.dim_feedforward=64 --policy.n_encoder_layers=2 --policy.n_vae_encoder_layers=1
  --policy.chunk_size=8 --policy.n_action_steps=8 --policy.latent_dim=8)
run=("$bin/lr-launch" --standalone --nproc-per-node=2 "$bin/lr-train" --dataset.repo_id=lr/reach --dataset.root=tests/data/dataset_reach
  "${act[@]}" --batch_size=4 --steps=40 --save_freq=20 --log_freq=5 --num_workers=1 --output_dir="$out")
say "1. Two workers train a small ACT for 40 steps:"
echo "${run[*]}"
"${run[@]}"

last=$out/checkpoints/last/pretrained_model/train_config.json
resume=("$bin/lr-launch" --standalone --nproc-per-node=2 "$bin/lr-train" --resume=true --config_path="$last" --steps=60)
say "2. Resume from the last checkpoint and go on to step 60:"
echo "${resume[*]}"
"${resume[@]}"

say "3. What is on disk:"
ls -l "$out/checkpoints"
ls "$out/checkpoints/last/pretrained_model" "$out/checkpoints/last/training_state"
