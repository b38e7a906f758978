"""One training configuration in PyTorch: python torch_train.py LAYERS WIDTH VOCAB CONTEXT BATCH f32|bf16 eager|compile

GPT-2's architecture with tied head, fused AdamW, global-norm clip: the work of `espalier bench train`. Prints one JSON
object: the median tokens/s of the steps after the first two.
"""
import json
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

layers, width, vocab, context, batch = map(int, sys.argv[1:6])
dtype, mode = sys.argv[6], sys.argv[7]
heads = width // 64


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (z.view(b, t, heads, 64).transpose(1, 2) for z in self.qkv(self.norm1(x)).split(width, 2))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, width)
        x = x + self.out(mixed)
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block() for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, ids, targets):
        x = self.tokens(ids) + self.positions.weight
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(F.linear(self.norm(x), self.tokens.weight).view(-1, vocab), targets.view(-1))


torch.manual_seed(0)
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
run = torch.compile(model) if mode == "compile" else model
seconds = []
for step in range(7):
    ids, targets = (torch.randint(0, vocab, (batch, context)) for _ in range(2))
    start = time.perf_counter()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == "bf16"):
        loss = run(ids, targets)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    seconds.append(time.perf_counter() - start)
print(json.dumps({"value": batch * context / statistics.median(seconds[2:]), "torch": torch.__version__}))
