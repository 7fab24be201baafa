"""Flags of training and inference programs whose values are kept.

Names are in lower case, without leading dashes, ``-`` as ``_``; of a dotted name, such as
``trainer.max_steps``, the last part counts. From the manuals of torchrun, accelerate, DeepSpeed,
transformers, Lightning, Hydra's examples, Megatron-LM, vLLM, SGLang, torchtune, nanoGPT and timm.
"""

from __future__ import annotations

import re

from warpline.lazy import lazy_pattern
from warpline.redaction.known_secrets import is_secret_name
from warpline.redaction.word_lists import words

# A number, or a known word. No single letters: -p is the port of one program and the password of
# another.
NUMBER_FLAGS = words(
    """
    accum accumulate accumulate_grad_batches accumulation_steps adam_beta1 adam_beta2 adam_eps
    adam_epsilon alpha b1 b2 batch batch_size batches beam_size beta beta1 beta2 betas block_size
    bs bucket_cap_mb chunk_size clip clip_grad clip_grad_norm concurrency context_len
    context_length context_parallel_size cp cp_size cpu_offload_gb cpunodebind crop_pct d_model
    data_parallel_size dataloader_num_workers dataloader_prefetch_factor decay_epochs decay_rate
    decode_steps degree depth device device_batch_size device_ids devices dim dp dp_size drop
    drop_path dropout embed_dim ep ep_size epoch epochs eps epsilon eta_min eval_batch_size
    eval_every eval_interval eval_iters eval_steps expert_model_parallel_size expert_parallel_size
    ffn_hidden_size fsdp_sharding_strategy gamma global_batch_size gpu gpu_ids
    gpu_memory_utilization gpus gpus_per_node grad_acc_steps grad_accum grad_accum_steps grad_clip
    gradient_accumulation_steps gradient_clip_val head_dim height hidden_dim hidden_size
    hidden_units image_size img_size in_channels init_method_std input_len intermediate_size
    iteration iterations iters kv_channels kv_heads label_smoothing label_smoothing_factor
    latent_dim layers learning_rate length limit_train_batches limit_val_batches local_batch_size
    local_rank log_every log_every_n_steps log_freq log_interval logging_steps loops lora_alpha
    lora_dropout lora_r lora_rank lr lr_decay lr_decay_iters lr_end lr_min lr_warmup_fraction
    lr_warmup_iters lr_warmup_samples machine_rank main_process_port make_vocab_size_divisible_by
    master_port max_batch_size max_concurrency max_epochs max_grad_norm max_input_len
    max_input_length max_iters max_length max_lr max_model_len max_new_tokens
    max_num_batched_tokens max_num_seqs max_output_tokens max_position_embeddings max_restarts
    max_running_requests max_seq_len max_seq_length max_source_length max_steps max_target_length
    max_time max_tokens max_total_tokens mem_fraction_static membind micro_batch_size
    microbatch_size microbatches milestones min_epochs min_lr min_new_tokens min_steps min_tokens
    mini_batch_size minibatch_size mixup mlp_ratio model_ema_decay momentum n_batch n_ctx n_embd
    n_embed n_epochs n_head n_heads n_layer n_layers n_samples n_steps ngpu ngpus nnodes node_rank
    nodes npernode nproc nproc_per_node ntasks ntasks_per_node num_attention_heads num_batches
    num_beams num_blocks num_chains num_classes num_concurrent_requests num_cpu
    num_cpu_threads_per_process num_cpus num_devices num_epochs num_examples num_experts
    num_fewshot num_gpu num_gpus num_gpus_per_node num_heads num_hidden_layers num_inference_steps
    num_iter num_iterations num_iters num_key_value_heads num_kv_heads num_layers num_machines
    num_nodes num_proc num_processes num_prompts num_queries num_query_groups num_requests
    num_return_sequences num_rounds num_runs num_samples num_scheduler_steps num_shards num_stages
    num_steps num_tasks num_threads num_tokens num_train_epochs num_train_steps num_trials
    num_warmup num_warmup_steps num_workers opt_betas opt_eps out_channels output_len p_dropout
    parallel parallel_size patch_size per_device_batch_size per_device_eval_batch_size
    per_device_train_batch_size per_gpu_batch_size per_gpu_train_batch_size
    pipeline_model_parallel_size pipeline_parallel_size port pp pp_size precision prefetch
    prefetch_factor print_freq profile_ranks profile_step_end profile_step_start random_seed rank
    ranks rate ratio rdzv_max_restarts repeat repeats repetition_penalty replicas request_rate
    resolution rope_scaling_factor rope_theta rotary_base sample_len samples_per_second save_every
    save_interval save_steps save_total_limit seed seeds seq_len seq_length seqlen sequence_length
    sequence_parallel_size shards sigma size sp split_size stages start_epoch steps
    steps_per_epoch steps_per_print stride swap_space target_len temperature
    tensor_model_parallel_size tensor_parallel_size test_batch_size threads timesteps
    tokens_per_batch top_k top_p tp tp_degree tp_size train_batch_size train_iters
    train_micro_batch_size_per_gpu train_samples train_steps val_batch_size val_check_interval
    val_every vocab_size warmup warmup_epochs warmup_factor warmup_iters warmup_lr warmup_ratio
    warmup_steps wd weight_decay width window_size worker workers world_size zero zero_stage
    """
)

# A known word only.
WORD_FLAGS = words(
    """
    accelerator act activation activation_fn amp amp_dtype amp_impl arch architecture attention
    attention_backend attention_impl attn attn_backend attn_impl attn_implementation autocast
    backend benchmark bf16 bias bind_to causal channels_last ckpt_activations compile
    compile_backend compile_mode cuda cuda_graph cuda_graphs cudnn_benchmark data_format dataset
    dataset_name ddp_backend deterministic disable_log_stats dist_backend distributed
    distributed_backend distributed_executor_backend do_eval do_predict do_train dtype dynamic
    dynamo_backend dynamo_mode eval eval_strategy evaluation_strategy flash flash_attention
    flash_attn format fp16 fp32 fp8 freeze fsdp fsdp_offload_params fsdp_sharding_strategy
    fullgraph fused generate gradient_checkpointing half init kv_cache_dtype launcher load_format
    log_level logging_level logging_strategy loglevel lora loss lr_scheduler lr_scheduler_type
    map_by master_dtype memory_format mixed_precision mode model model_id model_name
    model_name_or_path model_path model_type module multi_gpu multiprocessing nccl network norm
    norm_type normalization offload opt optim optimizer optimizer_name overlap parallel_mode
    param_dtype persistent_workers phase pin_mem pin_memory pipeline_schedule
    pipeline_schedule_type precision pretrained quantization quantize rdzv_backend
    recompute_activations recompute_granularity recompute_method reduce_dtype resume save_strategy
    sched schedule scheduler sharding shuffle stage start_method strategy task tf32 tokenizer
    torch_compile torch_compile_backend torch_compile_mode torch_dtype train train_type trainer
    use_amp use_cache use_cpu use_cuda variant verbose verbosity
    """
)
_SWITCH = lazy_pattern(r"(?:use|enable|disable|do|with|no|allow|is)_[a-z0-9_]{1,40}", re.ASCII)

# Configurations and scripts of the project.
PATH_FLAGS = words(
    """
    accelerate_config arg_file cfg conf config config_file config_files config_path configs
    deepspeed deepspeed_config ds_config entrypoint experiment_config fsdp_config hostfile hparams
    model_config params_file recipe script train_config yaml
    """
)

# A public model's name.
MODEL_FLAGS = words(
    """
    arch architecture model model_id model_name model_name_or_path model_path model_tag model_type
    network pretrained_model_name_or_path served_model_name teacher tokenizer
    """
)

# Flags that take several words as values.
MULTIPLE = words("betas device_ids devices gpu_ids gpus milestones opt_betas seeds")

# Names with this last word take numbers, whatever precedes it.
_COUNTED = words(
    """
    batches decay degree dim dims dropout epochs freq heads interval iterations iters layers
    length momentum ratio seqlen size steps stride warmup width workers
    """
)


def normal_name(name: str) -> str:
    """Return a flag's name as in the lists: the last part of a dotted name."""
    return name.lstrip("-+~").replace("-", "_").lower().rpartition(".")[2].rpartition("/")[2]


def takes_number(name: str) -> bool:
    """Return whether a number after this flag may be kept."""
    plain = normal_name(name)
    if is_secret_name(_before(name)):
        return False
    if plain in NUMBER_FLAGS:
        return True
    return plain.rpartition("_")[2] in _COUNTED and not is_secret_name(plain)


def takes_word(name: str) -> bool:
    """Return whether a known word after this flag may be kept."""
    plain = normal_name(name)
    if is_secret_name(_before(name)):
        return False
    is_switch = _SWITCH.fullmatch(plain) is not None and not is_secret_name(plain)
    return plain in WORD_FLAGS or is_switch or takes_number(name)


def takes_path(name: str) -> bool:
    """Return whether a file of the project after this flag may be kept."""
    return normal_name(name) in PATH_FLAGS and not is_secret_name(_before(name))


def takes_model(name: str) -> bool:
    """Return whether the name of a public model after this flag may be kept."""
    return normal_name(name) in MODEL_FLAGS and not is_secret_name(_before(name))


def is_listed(name: str) -> bool:
    """Return whether a flag's whole name is on a list, so that it is certainly a flag."""
    plain = name.lstrip("-+~").replace("-", "_").lower()
    return plain in NUMBER_FLAGS or plain in WORD_FLAGS or plain in PATH_FLAGS


def _before(name: str) -> str:
    """Return the parts of a dotted name before the last one."""
    return name.rpartition(".")[0]
