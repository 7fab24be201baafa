"""Values that may be kept after flags known to take them: forms, and known words."""

from __future__ import annotations

import re

from warpline.lazy import lazy_pattern
from warpline.redaction.word_lists import words

_WORDS = words(
    """
    true false yes no on off none null auto all default bf16 fp16 fp32 fp64 fp8 fp4 nf4 tf32 int8
    int4 uint8 float16 float32 float64 bfloat16 float half double float8 float8_e4m3fn float8_e5m2
    fp8_e4m3 fp8_e5m2 mxfp4 mxfp8 nvfp4 torch.float16 torch.bfloat16 torch.float32 torch.half
    16-mixed bf16-mixed 16-true bf16-true 32-true 64-true transformer-engine amp o0 o1 o2 o3 cuda
    cpu gpu gpus mps xpu tpu npu meta rocm hip nccl gloo mpi ucc c10d static etcd etcd-v2 ray mp
    fork spawn forkserver external_launcher pytorch torchrun deepspeed slurm max-autotune
    max-autotune-no-cudagraphs reduce-overhead inductor eager aot_eager cudagraphs nvfuser
    tensorrt onnxrt onnxruntime openvino dynamo aot_ts_nvfuser fx trt adam adamw adamw_torch
    adamw_torch_fused adamw_hf adamw_8bit adamw_bnb_8bit paged_adamw paged_adamw_8bit
    paged_adamw_32bit adamw_apex_fused sgd adagrad adadelta adamax nadam radam rmsprop lamb lars
    lion adafactor sophia muon shampoo soap fusedadam fusedlamb lbfgs asgd rprop cosine
    cosine_with_restarts cosine_with_min_lr linear constant constant_with_warmup polynomial
    inverse_sqrt inverse-square-root exponential step multistep onecycle plateau wsd
    warmup_stable_decay warmupcosine cosineannealinglr steplr onecyclelr relu gelu silu swiglu
    geglu swish mish tanh sigmoid softmax quick_gelu squared-relu layernorm rmsnorm batchnorm
    groupnorm flash flash_attention flash_attention_2 flash_attention_3 flash_attn sdpa math
    efficient xformers mem_efficient flashinfer triton cutlass cudnn torch native unfused fused
    local flex_attention ddp fsdp fsdp2 dp tp pp ddp_spawn fsdp_native dtensor zero zero1 zero2
    zero3 stage1 stage2 stage3 deepspeed_stage_1 deepspeed_stage_2 deepspeed_stage_3 full_shard
    shard_grad_op no_shard hybrid_shard offload full_shard,auto_wrap full selective uniform block
    1f1b gpipe interleaved interleaved1f1b zerobubble zbvzerobubble debug info warning warn error
    critical trace fatal verbose quiet detail notset train training trainer eval evaluate
    evaluation val validate validation test testing fit finetune fine-tune fine_tune finetuning
    pretrain pretraining sft dpo ppo grpo rlhf infer inference predict prediction generate
    generation serve benchmark bench profile tune sample sampling launch run export convert
    prepare preprocess smoke warmup prefill decode throughput latency single distributed multi_gpu
    multi-gpu node nodes epoch epochs steps never always online offline normal random zeros ones
    xavier kaiming orthogonal truncated_normal awq gptq gguf bitsandbytes bnb marlin squeezellm
    compressed-tensors fp8_dynamic int8_wo nhwc nchw channels_last channels-last contiguous_format
    safetensors pt dummy sharded_state text-generation text-classification image-classification
    summarization translation causal-lm imagenet imagenet-1k cifar10 cifar100 mnist fashion-mnist
    wikitext wikitext2 wikitext-2 wikitext-103 shakespeare shakespeare_char openwebtext c4 alpaca
    squad glue coco sharegpt synthetic fake tiny small base medium large xl xxl huge mini nano mse
    mae l1 l2 bce cross_entropy crossentropy ce kl huber nll crossattention cross self
    cudaprofilerapi nvtx primary
    """
)

_NUMBER = r"[+-]?(?:[0-9]{1,10}(?:\.[0-9]{0,10})?|\.[0-9]{1,10})(?:[eE][+-]?[0-9]{1,3})?"
_UNIT = r"(?:[kKmMgGbBtT]|[kKmMgG]i?[bB]|%|s|ms|min|h)?"
_LISTED = r"[+-]?[0-9]{0,6}(?:\.[0-9]{1,8})?(?:[eE][+-]?[0-9]{1,3})?"
_NUMBERS = lazy_pattern(
    rf"{_NUMBER}{_UNIT}|[\[(]?{_LISTED}(?:, ?{_LISTED}){{0,15}}[\])]?"
    r"|[0-9]{1,5}(?:[x:-][0-9]{1,5}){1,3}",
    re.ASCII,
)
_DEVICE = lazy_pattern(r"(?:cuda|gpu|cpu|xpu|npu|mps):[0-9]{1,3}", re.ASCII)
# Public models: the name of a family, then sizes and versions.
_ORGANISATION = (
    r"(?:meta-llama|facebook|google|google-bert|openai|openai-community|mistralai|microsoft"
    r"|qwen|deepseek-ai|eleutherai|bigscience|tiiuae|stabilityai|nvidia|huggyllama|huggingface"
    r"|huggingfacetb|timm|thudm|01-ai|databricks|mosaicml|allenai|cerebras|xai-org|runwayml"
    r"|black-forest-labs|sentence-transformers|tinyllama|baai|state-spaces)"
)
_FAMILY = (
    r"(?:albert|alexnet|bart|beit|bert|bge|bloom|clip|codellama|convnext|deberta|deepseek|deit"
    r"|densenet|dinov2|distilbert|distilgpt|efficientnet|electra|falcon|flan|flux|gemma|glm|gpt"
    r"|gpt-j|gpt-neo|gpt-neox|gpt-oss|inception|kimi|llama|llava|mamba|maskrcnn|meta-llama"
    r"|minilm|mistral|mixtral|mlp|mobilenet|mpt|nemotron|olmo|opt|phi|pythia|qwen|regnet|resnet"
    r"|resnext|roberta|sam|sdxl|smollm|squeezenet|stable-diffusion|starcoder|swin|t5|tinyllama"
    r"|transformer|unet|vgg|vit|wav2vec|whisper|wide-resnet|yi|yolo|xlm)"
)
_VARIANT = (
    r"(?:[a-z]?[0-9]{1,3}(?:\.[0-9]{1,2})?[bmkn]?|v[0-9](?:\.[0-9]{1,2})?|[0-9]x[0-9]{1,2}b|base"
    r"|large|small|medium|tiny|mini|nano|huge|giant|lite|xl|xxl|instruct|chat|it|hf|cased|uncased"
    r"|patch[0-9]{1,2}|coder|math|distill|distilled|vision|turbo|preview|r1|moe|en|multilingual|fpn"
    r"|dev|schnell|awq|gptq|gguf|neo|refiner|window[0-9]{1,2}|bottleneck|llama|qwen|[0-9]{4})"
)
_MODEL = lazy_pattern(
    rf"(?:{_ORGANISATION}/)?(?:meta-)?{_FAMILY}(?:[0-9]{{1,3}}(?:\.[0-9]{{1,2}})?[bmkn]?)?"
    rf"(?:[-_.]{_VARIANT}){{0,7}}",
    re.ASCII | re.IGNORECASE,
)
_LONGEST = 128


def is_number(value: str) -> bool:
    """Return whether a value is a number, a size, or a short list or range of numbers."""
    return bool(value) and len(value) <= _LONGEST and _NUMBERS.fullmatch(value) is not None


def is_known_word(value: str) -> bool:
    """Return whether a value is a common keyword, or a device such as cuda:0."""
    return value.lower() in _WORDS or _DEVICE.fullmatch(value) is not None


def is_known_model(value: str) -> bool:
    """Return whether a value has the name of a public model: resnet50, meta-llama/Llama-3.1-8B."""
    return len(value) <= _LONGEST and _MODEL.fullmatch(value) is not None
