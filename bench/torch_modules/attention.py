"""What the models with attention share."""
import torch.nn.functional as F


def heads(x, n):
    """[batch, tokens, n·d] → [batch, n, tokens, d]"""
    return x.unflatten(-1, (n, -1)).transpose(1, 2)


def attend(q, k, v, **options):
    """Of [batch, heads, tokens, d] → [batch, tokens, heads·d]"""
    return F.scaled_dot_product_attention(q, k, v, **options).transpose(1, 2).flatten(2)
