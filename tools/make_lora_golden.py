"""Makes the golden LoRA adapters of tests/golden/lora: tests/golden/models/llama3 and gpt2 with an adapter each.

    python tools/make_lora_golden.py

Needs torch, transformers and safetensors (versions are printed into versions.txt). The adapters are random, from seed
7, in the files that PEFT writes. The logits are what transformers computes with the weights W + alpha / r * B A in f32.
"""
import json
import pathlib

import safetensors.torch
import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"
TARGETS = {
    "llama3": {"q_proj": 4, "v_proj": 4, "o_proj": 3, "gate_proj": 4, "down_proj": 4},
    "gpt2": {"c_attn": 4, "c_fc": 2},
    "gpt_neox": {"query_key_value": 4, "dense_4h_to_h": 4},
}
ALPHA, OWN_ALPHA = 6, {"llama3": {"down_proj": 3.0}}


def main():
    torch.manual_seed(7)
    for name, targets in TARGETS.items():
        folder = ROOT / "lora" / name
        folder.mkdir(parents=True, exist_ok=True)
        model = transformers.AutoModelForCausalLM.from_pretrained(ROOT / "models" / name, dtype=torch.float32)
        tensors, alphas = {}, OWN_ALPHA.get(name, {})
        for path, module in model.named_modules():
            kind = path.rsplit(".", 1)[-1]
            if kind not in targets or not hasattr(module, "weight"):
                continue
            conv = isinstance(module, transformers.pytorch_utils.Conv1D)
            rows, cols = module.weight.shape[::-1] if conv else module.weight.shape
            rank = targets[kind]
            a, b = torch.randn(rank, cols) * 0.3, torch.randn(rows, rank) * 0.3
            tensors[f"base_model.model.{path}.lora_A.weight"] = a
            tensors[f"base_model.model.{path}.lora_B.weight"] = b
            change = alphas.get(kind, ALPHA) / rank * (b @ a)
            module.weight.data += change.T if conv else change
        safetensors.torch.save_file(tensors, folder / "adapter_model.safetensors")
        config = {"peft_type": "LORA", "r": 4, "lora_alpha": ALPHA, "bias": "none", "use_dora": False,
                  "modules_to_save": None, "alpha_pattern": alphas, "fan_in_fan_out": name == "gpt2",
                  "target_modules": sorted(targets), "base_model_name_or_path": name}
        (folder / "adapter_config.json").write_text(json.dumps(config, indent=1) + "\n")
        ids = safetensors.torch.load_file(ROOT / "models" / name / "golden.safetensors")["ids"][0].long()
        with torch.no_grad():
            logits = model(ids[None]).logits[0]
        safetensors.torch.save_file({"logits": logits.contiguous()}, folder / "golden.safetensors")
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}, seed 7\n"
    (ROOT / "lora" / "versions.txt").write_text(versions)


if __name__ == "__main__":
    main()
