"""Makes tests/golden/models/NAME/: a tiny random model of each family as transformers writes it, and golden.safetensors
with what PyTorch computes from it: logits, loss, the gradient of every weight, and the losses of ten AdamW steps. And
tests/golden/rope.json: the rotary frequencies of every scaling.

Needs torch, transformers, safetensors. Run: python tools/make_model_golden.py [NAME...]
The versions and the seed are recorded in golden.safetensors' metadata.
"""
import json
import pathlib
import shutil
import sys

import safetensors.torch
import torch
import transformers
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
SEED = 20261130
OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "models"
BATCH, STEPS = 2, 10
# EPS lies above the rounding of f32 gradients (1e-7): with 1e-8 a gradient that is 0 but for rounding moves its weight by
# LR up or down, and the losses of ten steps are those of a coin toss.
LR, BETAS, EPS, DECAY, CLIP = 1e-2, (0.9, 0.95), 1e-5, 0.1, 1.0

llama = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=40,
             vocab_size=61, max_position_embeddings=64, initializer_range=0.3, attention_dropout=0.0)
# The later ones are smaller, and odd where it matters: heads wider than width / heads, ties both ways. No padding: its
# embedding would have no gradient.
tiny = llama | dict(hidden_size=16, intermediate_size=20, bos_token_id=1, eos_token_id=2, pad_token_id=None)
LOCAL = ["sliding_attention", "full_attention"]
# name: class of the configuration, its fields, tokens a sequence
MODELS = {
    "gpt2": ("GPT2", dict(n_layer=2, n_embd=24, n_head=3, vocab_size=61, n_positions=32, initializer_range=0.2,
                          resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0), 24),
    "llama2": ("Llama", dict(**llama, rope_theta=10000.0, tie_word_embeddings=False), 24),
    "llama3": ("Llama", dict(**llama, tie_word_embeddings=True, rope_parameters=dict(
        rope_type="llama3", rope_theta=500.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=16)), 24),
    "mistral": ("Mistral", dict(**llama, sliding_window=7, tie_word_embeddings=False), 24),
    "qwen2": ("Qwen2", dict(**tiny, tie_word_embeddings=True, use_sliding_window=True, sliding_window=5,
                            max_window_layers=1), 12),
    "qwen3": ("Qwen3", dict(**tiny, head_dim=6, tie_word_embeddings=True), 12),
    "gpt_neox": ("GPTNeoX", dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=20,
                                 vocab_size=61, max_position_embeddings=64, initializer_range=0.3,
                                 rotary_pct=0.5, hidden_dropout=0.0, attention_dropout=0.0), 12),
    "gemma2": ("Gemma2", dict(**tiny, head_dim=6, query_pre_attn_scalar=5, sliding_window=5, attn_logit_softcapping=2.0,
                              final_logit_softcapping=4.0), 12),
    "gemma3": ("Gemma3Text", dict(**tiny, head_dim=6, query_pre_attn_scalar=5, sliding_window=5, layer_types=LOCAL,
                                  rope_parameters=dict(
        full_attention=dict(rope_type="linear", factor=8.0, rope_theta=1000.0),
        sliding_attention=dict(rope_type="default", rope_theta=100.0))), 12),
    "phi3": ("Phi3", dict(**tiny, sliding_window=6, partial_rotary_factor=0.5, tie_word_embeddings=True), 12),
    "olmo2": ("Olmo2", dict(**tiny), 12),
    "granite": ("Granite", dict(**tiny, embedding_multiplier=3.0, logits_scaling=2.5, residual_multiplier=0.6,
                                attention_multiplier=0.3, attention_bias=True, mlp_bias=True,
                                tie_word_embeddings=True), 12),
    "smollm3": ("SmolLM3", dict(**tiny, no_rope_layers=[1, 0], rope_theta=500.0), 12),
}


def loss_of(model, ids):
    return model(input_ids=ids, labels=ids).loss


def ten_losses(model, ids):
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}],
                                  lr=LR, betas=BETAS, eps=EPS)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, ids)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses)


def make(name, kind, fields, time):
    torch.manual_seed(SEED)
    config = getattr(transformers, kind + "Config")(**fields)
    cls = getattr(transformers, kind.replace("Text", "") + ("LMHeadModel" if kind == "GPT2" else "ForCausalLM"))
    model = cls._from_config(config, attn_implementation="eager").float().eval()
    for parameter in model.parameters():  # biases and norms too, so that no gradient or sign is hidden by a zero
        with torch.no_grad():
            parameter.add_(0.05 * torch.randn_like(parameter))
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    ids = torch.randint(0, config.vocab_size, (BATCH, time))
    golden = {"ids": ids.int(), "logits": model(input_ids=ids).logits.detach().contiguous()}
    loss = loss_of(model, ids)
    loss.backward()
    golden["loss"] = loss.detach().reshape(1)
    for key, parameter in model.named_parameters():
        # transformers 5 calls GPT-NeoX's head otherwise than its files do.
        key = key.replace("lm_head", "embed_out") if kind == "GPTNeoX" else key
        golden["grad." + key] = parameter.grad.contiguous()
    golden["losses"] = ten_losses(model, ids)
    metadata = {"script": "tools/make_model_golden.py", "seed": str(SEED), "torch": torch.__version__,
                "transformers": transformers.__version__, "lr": str(LR), "betas": str(BETAS), "eps": str(EPS),
                "decay": str(DECAY), "clip": str(CLIP)}
    safetensors.torch.save_file(golden, folder / "golden.safetensors", metadata)
    print(name, f"loss {loss.item():.5f} ten {golden['losses'][0]:.5f} .. {golden['losses'][-1]:.5f}")


ROPES = [
    dict(rope_type="default"), dict(rope_type="linear", factor=4.0), dict(rope_type="dynamic", factor=2.0),
    dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
         original_max_position_embeddings=8192),
    dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32768),
    dict(rope_type="yarn", factor=16.0, original_max_position_embeddings=4096, beta_fast=16, beta_slow=2,
         truncate=False),
    dict(rope_type="yarn", factor=40.0, original_max_position_embeddings=4096, mscale=0.707, mscale_all_dim=1.0),
    dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=4096, attention_factor=1.5),
]


def rope_of(parameters):
    """The frequencies and the factor of cosines and sines that transformers computes."""
    fields = dict(hidden_size=256, num_attention_heads=4, num_hidden_layers=1, num_key_value_heads=2,
                  intermediate_size=20, vocab_size=61, max_position_embeddings=32768)
    config = LlamaConfig(**fields, rope_parameters=dict(rope_theta=500000.0, **parameters))
    rotary = LlamaRotaryEmbedding(config)
    return {"config": fields | {"model_type": "llama", "rope_parameters": config.rope_parameters},
            "inv_freq": rotary.inv_freq.tolist(), "attention_scaling": rotary.attention_scaling}


for model_name in sys.argv[1:] or MODELS:
    make(model_name, *MODELS[model_name])
golden_ropes = {"script": "tools/make_model_golden.py", "transformers": transformers.__version__,
                "ropes": [rope_of(parameters) for parameters in ROPES]}
(OUT.parent / "rope.json").write_text(json.dumps(golden_ropes) + "\n")
