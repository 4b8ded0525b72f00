// Pooling's operators and their tactics.
#include "ops/pool/offer.h"

#include <fmt/core.h>

#include "ops/core/channels_last.h"
#include "ops/cpu/rows/rows.h"
#include "ops/pool/cpu_int8.h"
#include "ops/pool/family.h"

namespace smelt::ops {
namespace {

using pool::Problem;

bool is_pool(const Node& node) {
  if (node.is("Reduce", smelt_domain)) return node.get_string("kind", "") == "mean";
  return node.is("MaxPool") || node.is("AveragePool") || node.is("GlobalMaxPool") || node.is("GlobalAveragePool") ||
         node.is("ReduceMean");
}

/// Every window holds at least one pixel of the image.
bool no_empty_window(const Problem& p) {
  for (size_t a = 0; a < p.window.rank(); ++a) {
    const int64_t reach = (p.window.kernel[a] - 1) * p.window.dilation[a];
    if (p.window.dilation[a] > 1 && p.window.pad_begin[a] > 0) return false;
    if (p.window.pad_begin[a] > reach || (p.y[a + 2] - 1) * p.window.stride[a] - p.window.pad_begin[a] >= p.x[a + 2])
      return false;
  }
  return true;
}

/// Why smelt's own kernels do not take it.
std::optional<Refusal> rejects(const BoundNode& b, const Problem& p) {
  if (p.x.size() < 3 || p.x.size() > 5 || p.y.size() != p.x.size())
    return refuse(Reason::wrong_rank, "{} spatial axes; it knows 1 to 3", p.x.size() - 2);
  if (p.x.size() != 4 && is_byte(p.type)) return refuse(Reason::wrong_rank, "bytes along {} axes; it knows 2", p.x.size() - 2);
  if (!is_byte(p.type) && (!float_kind(p.type) || b.outputs[0].type != p.type))
    return refuse(Reason::wrong_type, "elements of {}", smelt::name(p.type));
  if (!is_channels_last(b.inputs[0]) || !is_channels_last(b.outputs[0]))
    return refuse(Reason::wrong_layout, "an image that is not channels-last");
  if (elements(p.x) == 0 || elements(p.y) == 0) return refuse(Reason::wrong_shape, "an empty tensor");
  if (!no_empty_window(p)) return refuse(Reason::wrong_attribute, "windows that lie in the padding altogether");
  return std::nullopt;
}

/// Of f16 and bf16 too, and what pool::problem does not know: indices, padding counted where windows may end behind it.
void offer_plain_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (b.node->op.ends_with("Pool")) pool::offer_direct(b, machine, offer);
}

/// An image of one channel is a plain one, too: its pixels are too short for the kernels of channels-last images.
void offer_one_channel(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (b.inputs[0].shape[1] == 1 && !b.node->program) offer_plain_cpu(b, machine, offer);
}

void offer_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  const Result<Problem> p = pool::problem(b);
  if (!p) {
    offer.refuse("cpu", p.refusal());
    return offer_plain_cpu(b, machine, offer);
  }
  const auto why = rejects(b, *p);
  if (!why && is_byte(p->type)) {
    if (const auto unknown = pool::offer_integer(b, *p, machine, offer)) return offer.refuse("cpu", *unknown);
    offer.problem = p->dequantized ? "" : pool::print(*p);  // a program's constants are part of the problem
    return offer_one_channel(b, machine, offer);
  }
  offer.problem = pool::print(*p);
  if (why) {
    offer.refuse("cpu", *why);
    pool::offer_onednn(b, *p, machine, offer);
    return offer_plain_cpu(b, machine, offer);
  }
  if (p->type != DType::f32) {
    pool::offer_halves(b, *p, machine, offer);
  } else {
    pool::offer_channels_last(b, *p, machine, offer);
    pool::offer_onednn(b, *p, machine, offer);
  }
  offer_one_channel(b, machine, offer);
}

bool is_norm_pool(const Node& node) { return node.is("LpPool") || node.is("GlobalLpPool"); }
bool is_unpool(const Node& node) { return node.is("MaxUnpool"); }

/// Kernels walk over a window's taps, which an attribute counts: not over far more of them than the image has pixels. The reference
/// walks over pixels.
std::optional<Refusal> rejects_window(const BoundNode& b) {
  constexpr int64_t many = 1024;
  const std::vector<int64_t> kernel = b.node->get_ints("kernel_shape");
  const Shape grid = spatial_of(b.inputs[0].shape);
  for (size_t a = 0; a < std::min(kernel.size(), grid.size()); ++a)
    if (kernel[a] > many && kernel[a] / 2 > grid[a])
      return refuse(Reason::too_large, "windows of {} over an image of {}; it knows {}, or twice the image", kernel[a], grid[a],
                    many);
  return std::nullopt;
}

template <auto offer_tactics> void offer_windows(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (const auto why = rejects_window(b)) return offer.refuse(machine.gpu ? "cuda" : "cpu", *why);
  offer_tactics(b, machine, offer);
}

constexpr OperatorTactics operators[] = {
    {is_pool, offer_windows<offer_cpu>, offer_windows<pool::offer_cuda>},
    {is_norm_pool, offer_windows<offer_plain_cpu>, nullptr},
    {is_unpool, pool::offer_unpool, nullptr},
};

}  // namespace

constinit const TacticFamily pool_family{operators, true};

}  // namespace smelt::ops
