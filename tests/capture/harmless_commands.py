"""Command lines of real programs, and what of them a recording keeps: all of it where no second
line, with ``->`` before it, says otherwise. ``***`` in them is what was left out.
"""

# ruff: noqa: E501 - a command line is one line

LINES = """\
python train.py
python3.11 -u train.py --batch-size 64 --lr 3e-4 --epochs 10 --seed 42
python train.py --batch-size 64 --lr 3e-4 --precision bf16 --data /mnt/x --name foo
-> python train.py --batch-size 64 --lr 3e-4 --precision bf16 --data *** --name ***
/usr/bin/python3 /home/me/proj/train.py --lr=1e-3
-> python3 train.py --lr=1e-3
python -O -X importtime -W ignore train.py --no-cuda
python -m pytest tests/test_a.py
python -m pkg.sub.mod --steps 100
python -c 'import torch' --steps 100
-> python -c *** --steps 100
./train.py --steps 5
scripts/run.sh --steps 5
bash scripts/run.sh train 3
-> bash scripts/run.sh train ***
bash -c 'python train.py --lr 3'
-> bash -c ***
sh -e scripts/run.sh
env CUDA_VISIBLE_DEVICES=0,1 OMP_NUM_THREADS=8 python train.py
CUDA_LAUNCH_BLOCKING=1 NCCL_DEBUG=INFO python train.py
env WANDB_MODE=offline python train.py
-> env WANDB_MODE=*** python train.py
nohup python train.py --epochs 90
nice -n 5 python train.py --epochs 90
timeout 600 python train.py
-> timeout *** python train.py
taskset -c 0-7 python train.py
-> taskset -c *** python train.py
numactl --cpunodebind=0 --membind=0 python train.py
torchrun --standalone --nproc_per_node=8 train.py --compile=False --batch_size=12
torchrun --nnodes 2 --node-rank 0 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint h:29 train.py
-> torchrun --nnodes 2 --node-rank 0 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint *** train.py
torchrun --nnodes=1:4 --max-restarts=3 --master-port=29500 train.py
/usr/bin/python /opt/venv/bin/torchrun --nproc-per-node=gpu -m pkg.train --tp 2
-> python torchrun --nproc-per-node=gpu -m pkg.train --tp 2
python -m torch.distributed.run --nproc-per-node 2 train.py --bf16 --lr 0.1
python -m torch.distributed.launch --nproc_per_node=4 --use_env main.py --model resnet50 --amp
accelerate launch --config_file configs/fsdp.yaml train.py --gradient_accumulation_steps 4
accelerate launch -m pkg.train --lr 1
accelerate launch --multi_gpu --num_processes 8 --mixed_precision bf16 --dynamo_backend inductor train.py
deepspeed --num_gpus 8 --master_port 29501 train.py --deepspeed configs/ds_zero3.json
deepspeed --include localhost:0,1 train.py --zero-stage 3
-> deepspeed --include *** train.py --zero-stage 3
mpirun -np 4 --bind-to none -x NCCL_DEBUG=INFO python train.py
srun -N 2 -n 16 --gpus-per-node=8 --ntasks-per-node 8 python train.py --strategy fsdp
srun -n4 python train.py
compute-sanitizer python train.py
coverage run -m pytest tests
-> coverage run -m pytest ***
uv run python train.py --lr 1
poetry run python -m pkg.train
python -m warpline.annotate train.py --steps 3
python run_clm.py --model_name_or_path gpt2 --dataset_name wikitext --per_device_train_batch_size 8 --do_train --do_eval --output_dir /tmp/x
-> python run_clm.py --model_name_or_path gpt2 --dataset_name wikitext --per_device_train_batch_size 8 --do_train --do_eval --output_dir ***
python run_glue.py --model_name_or_path bert-base-cased --max_seq_length 128 --learning_rate 2e-5 --num_train_epochs 3 --fp16 true
python run.py --model_name_or_path meta-llama/Llama-3.1-8B-Instruct --torch_dtype bfloat16 --attn_implementation flash_attention_2
python run.py --optim adamw_torch_fused --lr_scheduler_type cosine --warmup_ratio 0.03 --weight_decay 0.1 --tf32 True
python run.py --gradient_checkpointing true --torch_compile true --torch_compile_mode max-autotune --logging_steps 10
python run.py --adam_beta1 0.9 --adam_beta2 0.95 --adam_epsilon 1e-8 --max_grad_norm 1.0
python train.py config/train_gpt2.py --compile=True --dtype=bfloat16 --block_size=1024 --n_layer=12
python train.py --n_head=12 --n_embd=768 --max_iters=2000 --eval_interval=250 --dropout=0.0
python pretrain_gpt.py --num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 4096 --max-position-embeddings 4096
python pretrain_gpt.py --tensor-model-parallel-size 4 --pipeline-model-parallel-size 2 --micro-batch-size 1 --global-batch-size 256
python pretrain_gpt.py --bf16 --recompute-granularity selective --lr-decay-iters 430000 --train-iters 500000 --min-lr 1e-5
python pretrain_gpt.py --context-parallel-size 2 --expert-model-parallel-size 8 --num-experts 64 --vocab-file /x
-> python pretrain_gpt.py --context-parallel-size 2 --expert-model-parallel-size 8 --num-experts 64 --vocab-file ***
vllm serve meta-llama/Llama-3.1-8B-Instruct --tensor-parallel-size 4 --port 8000 --dtype bfloat16
vllm serve Qwen/Qwen2.5-7B-Instruct --gpu-memory-utilization 0.9 --max-model-len 8192 --api-key x
-> vllm serve Qwen/Qwen2.5-7B-Instruct --gpu-memory-utilization 0.9 --max-model-len 8192 --api-key ***
vllm bench throughput --model mistralai/Mistral-7B-v0.1 --input-len 1024 --output-len 128 --num-prompts 500
python -m vllm.entrypoints.openai.api_server --model facebook/opt-125m --quantization awq --kv-cache-dtype fp8
python -m sglang.launch_server --model-path Qwen/Qwen2-7B --tp 2 --mem-fraction-static 0.85
trtllm-bench --model google/gemma-2-9b-it throughput --dataset /x --concurrency 16
-> trtllm-bench --model google/gemma-2-9b-it throughput --dataset *** --concurrency 16
tune run full_finetune_single_device --config configs/llama.yaml batch_size=8 epochs=1
-> tune run *** --config configs/llama.yaml batch_size=8 epochs=1
litgpt pretrain --train.max_steps 100 --precision bf16-true
python cli.py fit --trainer.max_steps 100 --trainer.precision 16-mixed --trainer.devices 8 --model.lr 0.02
python cli.py fit --config configs/base.yaml --trainer.strategy ddp --trainer.accelerator gpu
python train.py trainer.max_steps=100 model=resnet50 optimizer=adamw optimizer.lr=0.1 ++trainer.precision=bf16
python train.py +trainer.devices=2 ~trainer.logger experiment=foo data.batch_size=64 seed=1
-> python train.py +trainer.devices=2 '~trainer.logger' experiment=*** data.batch_size=64 seed=1
python train.py -m optimizer.lr=0.1,0.01 hydra.sweep.dir=/x
-> python train.py -m optimizer.lr=0.1,0.01 hydra.sweep.dir=***
python train.py --model vit_base_patch16_224 --img-size 224 --opt adamw --sched cosine --drop-path 0.1 --mixup 0.8 --aa rand
-> python train.py --model vit_base_patch16_224 --img-size 224 --opt adamw --sched cosine --drop-path 0.1 --mixup 0.8 --aa ***
python main.py -a resnet50 --dist-backend nccl --multiprocessing-distributed --world-size 1 --rank 0 /data/imagenet
-> python main.py -a *** --dist-backend nccl --multiprocessing-distributed --world-size 1 --rank 0 ***
python benchmark.py --device cuda:0 --warmup 10 --iters 100 --channels-last --compile-mode reduce-overhead
python bench.py --betas 0.9 0.95 --gpus 0 1 2 3 --milestones 30 60 90
python bench.py --max-tokens 4096 --num-key-value-heads=8 --top-p 0.9 --temperature 0.7 --top-k 50
python bench.py -lr 0.1 -batch_size 64 -epochs 2 --fp8 --use_cache true --enable-prefix-caching
python bench.py -vv -x -O2 --numGPUs 4 --useAmp true
-> python bench.py -vv -x -O2 --numGPUs *** --useAmp ***
python eval.py --task generate --beam-size 4 --half --max-new-tokens 64
python serve.py --port 8080 --num-workers 4 --log-level debug
python serve.py -p 12345 --seed 1
-> python serve.py -p *** --seed 1
trtexec --onnx=m.onnx --fp16 --iterations=100
-> trtexec --onnx=*** --fp16 --iterations=100
jupyter lab --port 8888
-> jupyter *** --port 8888
docker run --rm -it --gpus all -v /x:/y image python train.py --lr 1
-> docker run --rm -it --gpus all -v *** *** python train.py --lr 1
./build/bench --iters=100 --size 8192x8192
"""


def pairs() -> list[tuple[str, str]]:
    """Return command lines, and what is kept of each."""
    found: list[tuple[str, str]] = []
    for line in LINES.splitlines():
        if line.startswith("-> "):
            found[-1] = (found[-1][0], line.removeprefix("-> "))
        else:
            found.append((line, line))
    return found


FILES = (
    *("build/bench", "config/train_gpt2.py", "configs/base.yaml", "configs/ds_zero3.json"),
    *("configs/fsdp.yaml", "configs/llama.yaml", "scripts/run.sh", "tests/test_a.py", "train.py"),
)
