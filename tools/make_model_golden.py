"""Makes tests/golden/models/NAME/: a tiny random model of each family as transformers writes it, and golden.safetensors
with what PyTorch computes from it: logits, loss, the gradient of every weight, and the losses of ten AdamW steps.

Needs torch, transformers, safetensors. Run: python tools/make_model_golden.py
The versions and the seed are recorded in golden.safetensors' metadata.
"""
import pathlib
import shutil

import safetensors.torch
import torch
import transformers
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM

SEED = 20261130
OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "models"
BATCH, TIME, STEPS = 2, 24, 10
# EPS lies above the rounding of f32 gradients (1e-7): with 1e-8 a gradient that is 0 but for rounding moves its weight by
# LR up or down, and the losses of ten steps are those of a coin toss.
LR, BETAS, EPS, DECAY, CLIP = 1e-2, (0.9, 0.95), 1e-5, 0.1, 1.0

llama = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=40,
             vocab_size=61, max_position_embeddings=64, initializer_range=0.3, attention_dropout=0.0)
MODELS = {
    "gpt2": (GPT2LMHeadModel, GPT2Config(n_layer=2, n_embd=24, n_head=3, vocab_size=61, n_positions=32,
                                         initializer_range=0.2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)),
    "llama2": (LlamaForCausalLM, LlamaConfig(**llama, rope_theta=10000.0, tie_word_embeddings=False)),
    "llama3": (LlamaForCausalLM, LlamaConfig(**llama, tie_word_embeddings=True, rope_parameters=dict(
        rope_type="llama3", rope_theta=500.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=16))),
    "mistral": (MistralForCausalLM, MistralConfig(**llama, sliding_window=7, tie_word_embeddings=False)),
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


def make(name, cls, config):
    torch.manual_seed(SEED)
    model = cls._from_config(config, attn_implementation="eager").float().eval()
    for parameter in model.parameters():  # biases and norms too, so that no gradient or sign is hidden by a zero
        with torch.no_grad():
            parameter.add_(0.05 * torch.randn_like(parameter))
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    ids = torch.randint(0, config.vocab_size, (BATCH, TIME))
    golden = {"ids": ids.int(), "logits": model(input_ids=ids).logits.detach().contiguous()}
    loss = loss_of(model, ids)
    loss.backward()
    golden["loss"] = loss.detach().reshape(1)
    for key, parameter in model.named_parameters():
        golden["grad." + key] = parameter.grad.contiguous()
    golden["losses"] = ten_losses(model, ids)
    metadata = {"script": "tools/make_model_golden.py", "seed": str(SEED), "torch": torch.__version__,
                "transformers": transformers.__version__, "lr": str(LR), "betas": str(BETAS), "eps": str(EPS),
                "decay": str(DECAY), "clip": str(CLIP)}
    safetensors.torch.save_file(golden, folder / "golden.safetensors", metadata)
    print(name, f"loss {loss.item():.5f} ten {golden['losses'][0]:.5f} .. {golden['losses'][-1]:.5f}")


for model_name, (model_class, model_config) in MODELS.items():
    make(model_name, model_class, model_config)
