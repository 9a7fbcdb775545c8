"""What to write in the place of operators that do not convert."""

from __future__ import annotations

_EXPRESSIONS = {
    "addcdiv": "x + value * a / b",
    "addcmul": "x + value * a * b",
    "celu": "F.relu(x) + torch.minimum(alpha * (torch.exp(x / alpha) - 1), torch.zeros_like(x))",
    "channel_shuffle": "x.reshape(b, groups, -1, h, w).transpose(1, 2).reshape(b, -1, h, w)",
    "diff": "x[..., 1:] - x[..., :-1]",
    "fmod": "x - y * torch.sign(x / y) * torch.floor(torch.abs(x / y))",
    "hypot": "torch.sqrt(x * x + y * y)",
    "lerp": "x + weight * (y - x)",
    "log_sigmoid": "-F.softplus(-x)",
    "movedim": "x.permute(…)",
    "outer": "x[:, None] * y",
    "take_along_dim": "torch.gather(x, dim, indices)",
    "tensordot": "x.reshape(…) @ y.reshape(…)",
}
REWRITES = {operator: f"Write `{expression}`" for operator, expression in _EXPRESSIONS.items()}
"""By operator; some round differently."""
