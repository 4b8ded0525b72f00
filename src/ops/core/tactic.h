// How an operator with a choice of implementations offers them. The executor and the tuner see only Offers: the problem's
// printed form, the candidates with a cost estimate each, and why the others were left out.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/refusal.h"
#include "ops/core/operator.h"
#include "ops/core/packed_weights.h"

namespace smelt::ops {

/// How a tensor's elements lie in memory: row-major, or channels last, which exists inside a plan only.
enum class Layout : uint8_t { plain, nhwc };

struct BoundTensor {
  DType type = DType::undefined;
  Shape shape;  // logical (ONNX's) shape whatever the layout
  Layout layout = Layout::plain;
  Shape strides;            // elements from one index to the next along each logical axis; empty: dense in its layout
  Tensor constant;          // valid() for weights
  int64_t alignment = 256;  // of its first element in memory, bytes: a slice of another tensor begins anywhere
};

std::string_view name(Layout layout);
/// "f32[1,64,56,56]:nhwc", with ":strides=…" where the tensor is a slice of another; "-" for an input left out.
std::string print(const BoundTensor& t);
/// Bytes that the elements span: the dense size; with strides, from the first to the last element.
int64_t storage_bytes(const BoundTensor& t);

/// A node with everything known that building a kernel needs.
struct BoundNode {
  const Node* node = nullptr;
  std::vector<BoundTensor> inputs, outputs;
  WeightStore* weights =
      nullptr;  // where prepare() keeps packed weights, shared by all Executions of a plan; null: keep them itself

  bool has(size_t input) const { return input < inputs.size() && inputs[input].type != DType::undefined; }
  /// The value of an input that is known before the run; null for others.
  const Tensor* constant(size_t input) const {
    return input < inputs.size() && inputs[input].constant.valid() ? &inputs[input].constant : nullptr;
  }
};

struct Buffers {
  std::span<const void* const> inputs;  // null where left out
  std::span<void* const> outputs;
  void* workspace = nullptr;  // 64-byte aligned (256 on a GPU), Kernel::workspace() bytes
  void* stream = nullptr;     // a GPU's kernels are enqueued on it (device::cuda::abi::Stream), the rest is null
};

/// One bound problem, ready to run: weights packed, primitives made. run allocates nothing and is called by one thread at a time.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual int64_t workspace() const { return 0; }
  /// True when output 0 may be the very memory of input i: no element of it is read after the output's element in its place
  /// is written. Asked only where both have the same type, shape, layout and strides.
  virtual bool in_place(size_t i) const {
    (void)i;
    return false;
  }
  /// False for an input that run() never touches: a constant whose packed form the kernel keeps itself, so that no raw copy of it
  /// need lie in the device's memory.
  virtual bool reads(size_t i) const {
    (void)i;
    return true;
  }
  virtual void run(const Buffers& b) = 0;
};

struct Gpu;

struct Machine {
  int threads = 1;
  std::string cpu;                 // "AMD EPYC …", part of the cache key
  std::string isa;                 // "avx2", "avx512", "amx"
  std::string versions;            // of the libraries the tactics come from: "smelt 0.1.0, oneDNN 3.2.0", part of the cache key
  std::shared_ptr<const Gpu> gpu;  // the device that kernels run on (ops/cuda/gpu.h); null: the processor
};

struct Candidate {
  std::string tactic;      // "onednn", "avx2", "reference"; what --tactics names
  std::string config;      // what distinguishes two candidates of one tactic: "brgemm nhwc", "" when there is one
  double estimate_us = 0;  // the cost model's guess, which ranks candidates
  std::function<std::unique_ptr<Kernel>()> prepare;
  bool lengthy = false;  // to prepare, with little hoped of it: measured at tuning level 3 only
};

/// A tactic that cannot run the problem here.
struct RefusedTactic {
  std::string tactic;
  Refusal why;
};

/// A candidate by its names.
struct ChosenTactic {
  std::string tactic, config;
  bool operator==(const ChosenTactic&) const = default;
};

/// Whether the tactic's kernels on the processor are code that is generated for one shape, 0.1 to 2 ms each. The others read extents at
/// run time, and are ready at once where their weights were packed before.
bool generates_code(std::string_view tactic);

/// Which candidates an offer is asked for.
struct Wanted {
  const ChosenTactic* only = nullptr;  // that one, chosen before for a problem of other extents; null: all
  bool at_once = false;                // of them, those of tactics that do not generate code
};

struct Offer {
  std::string problem;                // "gemm:f32>f32:48x4096x4096:rcr:bias+relu": the cache key, the bench row, the test's name
  std::vector<Candidate> candidates;  // never empty for an operator with a reference
  std::vector<RefusedTactic> refused;
  Wanted wanted;  // while it is made

  /// Whether candidates of this tactic are worth the time to make them.
  bool asks_for(std::string_view tactic) const {
    return (!wanted.only || wanted.only->tactic == tactic) && !(wanted.at_once && generates_code(tactic));
  }

  /// Once for each tactic and text: several algorithms of one tactic may refuse for the same reason.
  void refuse(std::string tactic, Refusal why);
  template <class... A> void refuse(std::string tactic, Reason reason, fmt::format_string<A...> f, A&&... a) {
    refuse(std::move(tactic), smelt::refuse(reason, f, std::forward<A>(a)...));
  }
};

/// What can run this node here. Where not all candidates are wanted, the refusals may be missing too, and there may be no candidate at
/// all. It saves oneDNN's search, milliseconds for a convolution.
Offer offer(const BoundNode& node, const Machine& machine, Wanted wanted = {});

}  // namespace smelt::ops
