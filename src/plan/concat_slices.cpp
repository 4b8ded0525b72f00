#include "plan/concat_slices.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "ops/core/channels_last.h"
#include "ops/core/reference_kernel.h"
#include "ops/core/strides.h"
#include "ops/cpu/strided_copy.h"
#include "plan/image_roles.h"

namespace smelt::plan {
namespace {

using ops::Layout;

class Slices {
 public:
  Slices(Segment& s, const std::map<TensorIndex, Shape>& seen, bool on_gpu, const Runs& runs)
      : s_(s), seen_(seen), on_gpu_(on_gpu), runs_(runs) {}

  void run() {
    do slice_concatenations();
    while (drop_refused_slices());
  }

 private:
  /// Kernels that read this input, or write this output, when its pixels are further apart than its channels fill.
  bool takes_strides(const Step& step) const {
    if (step.kind == StepKind::concat) return true;
    if (step.kind != StepKind::kernel) return false;
    const Node& n = *step.node;
    if (is_reorder(n) || (on_gpu_ ? is_block_move(n) : is_part(n)) || ops::is_elementwise(n) || is_resize(n) ||
        is_image_pool(s_, step))
      return true;
    if (is_quantized_conv(n) || on_gpu_) return is_image_conv(s_, step, on_gpu_);
    if (!is_image_conv(s_, step, false) || n.get_int("group", 1) != 1 || s_.tensor(step.inputs[0]).type != DType::f32)
      return false;
    if (n.op == "Conv") return true;
    if (n.program) return false;                       // whose kernels for slices take none
    const Shape& w = s_.tensor(step.inputs[1]).shape;  // transposed: windows side by side
    const std::vector<int64_t> pads = n.get_ints("pads"), strides = n.get_ints("strides"), dilations = n.get_ints("dilations");
    return std::ranges::all_of(pads, [](int64_t p) { return p == 0; }) && strides == Shape(w.begin() + 2, w.end()) &&
           std::ranges::all_of(dilations, [](int64_t d) { return d == 1; }) && !n.has("output_shape") &&
           std::ranges::all_of(n.get_ints("output_padding"), [](int64_t p) { return p == 0; });  // exporters write its zeros out
  }

  void slice_concatenations() {
    std::vector<int> uses(s_.tensors.size(), 0);  // as a concatenation's input
    std::vector<bool> sliceable(s_.tensors.size(), false);
    for (const Step& step : s_.steps) {
      for (TensorIndex t : step.outputs) {
        if (t != absent)
          sliceable[static_cast<size_t>(t)] = takes_strides(step) && !s_.tensor(t).fixed_layout && !dense_.contains(t);
      }
    }
    for (const Step& step : s_.steps) {
      for (TensorIndex t : step.inputs) {
        if (t == absent) continue;
        if (!takes_strides(step)) sliceable[static_cast<size_t>(t)] = false;
        if (step.kind == StepKind::concat) ++uses[static_cast<size_t>(t)];
      }
    }
    for (auto step = s_.steps.rbegin(); step != s_.steps.rend(); ++step) {
      if (!is_channel_concat(s_, *step) || s_.tensor(step->outputs[0]).layout != Layout::nhwc) continue;
      const Shape slice = ops::memory_strides(s_.tensor(step->outputs[0]));
      for (TensorIndex t : step->inputs) {
        const size_t i = static_cast<size_t>(t);
        if (sliceable[i] && uses[i] == 1 && s_.tensor(t).layout == Layout::nhwc) s_.tensor(t).strides = slice;
      }
    }
    if (on_gpu_) align_pixels(sliceable);
  }

  /// Gives what convolutions write for reorders alone pixels that begin at whole vectors: an odd number of channels is stored, and read, an
  /// element at a time where the next pixel begins right behind it.
  void align_pixels(const std::vector<bool>& sliceable) {
    constexpr int64_t vector_bytes = 16, most_over = 4;  // a quarter more memory at most
    std::set<TensorIndex> others;                        // that more than reorders read
    for (const Step& step : s_.steps)
      if (step.kind != StepKind::kernel || !is_reorder(*step.node)) others.insert(step.inputs.begin(), step.inputs.end());
    for (const Step& step : s_.steps) {
      if (step.kind != StepKind::kernel || !is_image_conv(s_, step, true) || step.outputs.size() != 1) continue;
      const TensorIndex y = step.outputs[0];
      BoundValue& image = s_.tensor(y);
      if (!sliceable[static_cast<size_t>(y)] || others.contains(y) || image.layout != Layout::nhwc || !image.strides.empty())
        continue;
      const int64_t element = ops::element_bytes(image.type), channels = image.shape[1];
      const int64_t vector = vector_bytes / std::max<int64_t>(1, element), whole = (channels + vector - 1) / vector * vector;
      if (whole == channels || (whole - channels) * most_over > channels) continue;
      Shape wider = image.shape;
      wider[1] = whole;
      image.strides = ops::channels_last_strides(wider);
    }
  }

  /// Slices that a kernel does not take after all (a CPU without AVX2) are dense again, and copied.
  bool drop_refused_slices() {
    const auto is_slice = [&](TensorIndex t) { return t != absent && !s_.tensor(t).strides.empty(); };
    const size_t before = dense_.size();
    for (const Step& step : s_.steps) {
      if (std::ranges::none_of(step.inputs, is_slice) && std::ranges::none_of(step.outputs, is_slice)) continue;
      if (runs_(step, bound_node(s_, step, nullptr))) continue;
      for (const auto* tensors : {&step.inputs, &step.outputs})
        std::ranges::copy_if(*tensors, std::inserter(dense_, dense_.end()), is_slice);
    }
    if (dense_.size() == before) return false;
    for (BoundValue& t : s_.tensors) t.strides.clear();
    for (const auto& [t, strides] : seen_) s_.tensor(t).strides = strides;
    return true;
  }

  Segment& s_;
  const std::map<TensorIndex, Shape>& seen_;
  bool on_gpu_;
  const Runs& runs_;
  std::set<TensorIndex> dense_;  // must not be slices
};

}  // namespace

void slice_concatenations(Segment& s, const std::map<TensorIndex, Shape>& seen, bool on_gpu, const Runs& runs) {
  Slices(s, seen, on_gpu, runs).run();
}

}  // namespace smelt::plan
