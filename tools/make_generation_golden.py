"""Makes tests/golden/models/NAME/generation.json from the tiny models of make_model_golden.py: the greedy continuation
that transformers gives of some prompts, and how far the best logit was ahead of the second best at its closest.

Needs torch, transformers. Run: python tools/make_generation_golden.py [NAME...]
"""
import json
import pathlib
import sys

import torch
import transformers
from transformers import AutoModelForCausalLM

MODELS = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "models"
PROMPTS = [[7], [3, 1, 4, 1, 5, 9, 2, 6], [60, 0, 30, 30, 30, 30, 2, 17, 17, 5, 44, 8]]
NEW = 20


def greedy(model, prompt):
    # Every id is an ordinary one: nothing ends the text early.
    output = model.generate(torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
                            max_new_tokens=NEW, do_sample=False, eos_token_id=None, pad_token_id=0,
                            output_logits=True, return_dict_in_generate=True)
    best = torch.stack([step[0].topk(2).values for step in output.logits])
    margin = (best[:, 0] - best[:, 1]).min().item()
    return {"prompt": prompt, "greedy": output.sequences[0, len(prompt):].tolist(), "margin": round(margin, 6)}


names = sys.argv[1:] or sorted(path.name for path in MODELS.iterdir() if path.is_dir())
for folder in (MODELS / name for name in names):
    net = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    golden = {"script": "tools/make_generation_golden.py", "torch": torch.__version__,
              "transformers": transformers.__version__, "cases": [greedy(net, prompt) for prompt in PROMPTS]}
    (folder / "generation.json").write_text(json.dumps(golden) + "\n")
    print(folder.name, [case["margin"] for case in golden["cases"]])
