// What to do about a profile that another tool wrote. There is no model and no roof: only names of operators, their times and calls.
#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <span>

#include "profile/advice.h"

namespace smelt::profile {
namespace {

using Names = std::span<const std::string_view>;

// In lower case, without a domain, and without PyTorch's underscore for "in place".
constexpr std::string_view host_copies[] = {"memcpyfromhost", "memcpytohost"};  // ONNX Runtime's
constexpr std::string_view engine_copies[] = {"copy"};                          // Nsight Systems'
constexpr std::string_view page_moves[] = {"pages"};                            // of memory that host and device share
constexpr std::string_view moves[] = {"transpose", "concat",       "slice",    "split",        "pad",          "expand",
                                      "tile",      "gather",       "roll",     "depthtospace", "spacetodepth", "reorderoutput",
                                      "identity",  "reorderinput", "reformat", "shuffle",      "move"};
constexpr std::string_view torch_moves[] = {"cat",    "copy", "contiguous", "clone",         "stack",       "constant_pad_nd",
                                            "repeat", "roll", "flip",       "pixel_shuffle", "index_select"};
constexpr std::string_view casts[] = {"cast", "castlike", "_to_copy"};
constexpr std::string_view pointwise[] = {
    "add",        "sub",       "mul",      "div",       "neg",        "abs",  "pow",       "sqrt",    "rsqrt",
    "reciprocal", "exp",       "log",      "sin",       "cos",        "tanh", "erf",       "sigmoid", "relu",
    "gelu",       "silu",      "swish",    "leakyrelu", "leaky_relu", "elu",  "hardswish", "clip",    "hardsigmoid",
    "hardtanh",   "clamp",     "softplus", "where",     "max",        "min",  "rsub",      "minimum", "maximum",
    "fastgelu",   "quickgelu", "mish",     "biasgelu",  "pointwise"};
constexpr std::string_view batch_norms[] = {"batchnormalization", "native_batch_norm", "cudnn_batch_norm", "batch_norm"};
constexpr std::string_view converts[] = {"quantizelinear", "dequantizelinear", "dynamicquantizelinear", "quantize_per_tensor"};
// Of PyTorch, these compute and move nothing: what they take is the framework's.
constexpr std::string_view views[] = {"view",       "reshape",   "_unsafe_view", "as_strided", "permute", "t",
                                      "squeeze",    "unsqueeze", "flatten",      "detach",     "select",  "empty_strided",
                                      "empty_like", "narrow",    "empty",        "resize",     "expand",  "transpose",
                                      "slice",      "split",     "unflatten",    "chunk",      "alias",   "lift_fresh"};

std::string plain(const NodeTime& n) {
  std::string op = n.op.empty() ? n.name : n.op;
  if (const size_t colon = op.rfind(':'); colon != std::string::npos) op.erase(0, colon + 1);
  std::ranges::transform(op, op.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  while (op.size() > 1 && op.back() == '_') op.pop_back();
  return op;
}

/// A mean of runs may have half a call.
std::string calls_of(double calls) {
  return fmt::format("{} call{}", calls < 10 ? fmt::format("{:.2g}", calls) : fmt::format("{:.0f}", calls),
                     calls == 1 ? "" : "s");
}

class Found {
 public:
  explicit Found(const Timings& t) : t_(t) {}
  /// Adds advice where nodes of these operators take time. `why` follows "N nodes (M calls) ".
  void about(Names ops, const std::string& what, const char* why) {
    std::vector<const NodeTime*> nodes;
    double us = 0, calls = 0;
    for (const NodeTime& n : t_.nodes)
      if (std::ranges::find(ops, plain(n)) != ops.end() && n.self_us(t_.gpu) > 0)
        nodes.push_back(&n), us += n.self_us(t_.gpu), calls += n.calls;
    if (nodes.empty()) return;
    std::ranges::stable_sort(nodes, std::greater(), [&](const NodeTime* n) { return n->self_us(t_.gpu); });
    Advice a{what,
             fmt::format("{} node{} ({}) {}", nodes.size(), nodes.size() == 1 ? "" : "s", calls_of(calls), why),
             us,
             "measured",
             {}};
    for (const NodeTime* n : nodes) a.steps.push_back(n->name);
    all.push_back(std::move(a));
  }
  std::vector<Advice> all;

 private:
  const Timings& t_;
};

}  // namespace

std::vector<Advice> advise(const Timings& t) {
  if (!t.advice.empty()) return t.advice;
  const bool torch = t.origin == "PyTorch profiler";
  Found found(t);
  if (t.origin == "Nsight Systems") {
    found.about(engine_copies, "keep tensors on the GPU, and copies out of the middle", "copy between host and device");
    found.about(page_moves, "bring managed memory over before kernels ask for it: cudaMemPrefetchAsync, or a copy of one piece",
                "move pages between host and device one by one, for which kernels wait");
  }
  found.about(host_copies, "keep tensors on the GPU, and operators that run on the host out of the middle",
              "copy between host and device");
  found.about(pointwise, "fuse what computes element by element into its neighbours: smelt optimize MODEL",
              "read and write a tensor for each function by itself");
  found.about(torch ? Names(torch_moves) : Names(moves),
              "do without copies: let the steps before or behind them read and write the elements where they lie",
              "only move elements");
  found.about(batch_norms, "fold batch normalisation into the convolution before it: smelt optimize MODEL does",
              "scale what a convolution wrote");
  found.about(casts, "compute in one type", "convert between types");
  found.about(converts, "keep 8 bits from one step to the next: smelt optimize MODEL fuses them with their neighbours",
              "convert between float and 8 bits");
  if (torch && !t.gpu)
    found.about(views, "leave views and allocations to a plan: torch.onnx.export, then smelt optimize",
                "compute and move nothing");
  if (t.gpu) {
    double host = 0, device = 0, calls = 0;
    for (const NodeTime& n : t.nodes) host += n.self_cpu_us, device += n.self_gpu_us, calls += n.self_gpu_us > 0 ? n.calls : 0;
    if (host > device && device > 0)
      found.all.push_back({"launch without the host: a CUDA graph (smelt records one), larger steps, a larger batch",
                           fmt::format("the host takes longer to make {} of operators than the GPU to run them", calls_of(calls)),
                           host - device,
                           "measured",
                           {}});
  }
  rank(found.all, t.total_us());
  return std::move(found.all);
}

}  // namespace smelt::profile
