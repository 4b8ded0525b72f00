#include "ops/cpu/parts.h"

#include <atomic>
#include <exception>
#include <vector>

#include "ops/core/reference_kernel.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"

namespace smelt::ops {
namespace {

constexpr int64_t part = 4096;  // elements: what a reference makes of them stays in the cache, and begins at whole bytes

class PartsKernel final : public Kernel {
 public:
  PartsKernel(const BoundNode& b, const OpDef& def, int threads)
      : node_(*b.node), def_(def), inputs_(b.inputs), output_(b.outputs[0]), count_(elements(output_.shape)), threads_(threads) {}

  void run(const Buffers& b) override {
    std::exception_ptr thrown;
    std::atomic_flag is_thrown;
    parallel_dynamic(useful_threads(threads_, 4 * count_), (count_ + part - 1) / part, [&](int64_t i, int) {
      try {
        run_part(b, i * part, std::min(part, count_ - i * part));
      } catch (...) {
        if (!is_thrown.test_and_set()) thrown = std::current_exception();
      }
    });
    if (thrown) std::rethrow_exception(thrown);
  }

 private:
  void run_part(const Buffers& b, int64_t first, int64_t n) const {
    const auto at = [&](const BoundTensor& t, const void* data) {
      return const_cast<char*>(static_cast<const char*>(data)) + first * bits(t.type) / 8;
    };
    std::vector<Tensor> in(inputs_.size()), out = {Tensor::borrow(output_.type, {n}, at(output_, b.outputs[0]))};
    for (size_t i = 0; i < in.size(); ++i) {
      const BoundTensor& t = inputs_[i];
      if (!b.inputs[i]) continue;
      // References never write their inputs.
      in[i] = elements(t.shape) == 1 ? Tensor::borrow(t.type, t.shape, const_cast<void*>(b.inputs[i]))
                                     : Tensor::borrow(t.type, {n}, at(t, b.inputs[i]));
    }
    void* const own = out[0].raw();
    ComputeContext c{node_, in, out, {}};
    def_.reference(c);
    if (out[0].raw() != own) std::copy_n(static_cast<const char*>(out[0].raw()), out[0].nbytes(), static_cast<char*>(own));
  }

  Node node_;
  const OpDef& def_;
  std::vector<BoundTensor> inputs_;
  BoundTensor output_;
  int64_t count_;
  int threads_;
};

}  // namespace

void offer_parts(const BoundNode& node, double ns, const Machine& machine, Offer& offer) {
  if (const auto why = reference_rejects(node)) return offer.refuse("cpu", *why);
  if (node.outputs.size() != 1) return offer.refuse("cpu", Reason::unsupported, "parts: {} outputs", node.outputs.size());
  const Shape& shape = node.outputs[0].shape;
  for (const BoundTensor& t : node.inputs) {
    if (t.type == DType::string) return offer.refuse("cpu", Reason::wrong_type, "parts: strings");
    if (t.type != DType::undefined && t.shape != shape && elements(t.shape) != 1)
      return offer.refuse("cpu", Reason::wrong_shape, "parts: operands of several shapes");
  }
  offer.candidates.push_back({"cpu", "parts", 1 + static_cast<double>(elements(shape)) * ns / 1e3 / machine.threads,
                              [node, own = *node.node, def = find(node.node->op, node.node->domain), threads = machine.threads] {
                                BoundNode bound = node;
                                bound.node = &own;
                                return std::make_unique<PartsKernel>(bound, *def, threads);
                              }});
}

}  // namespace smelt::ops
