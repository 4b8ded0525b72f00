#include "ops/reorder/around.h"

#include <algorithm>

#include "ops/conv/offer.h"
#include "ops/core/align.h"
#include "ops/core/channels_last.h"
#include "ops/core/strides.h"
#include "ops/cpu/strided_copy.h"
#include "ops/reorder/reorder.h"

namespace smelt::ops {
namespace {

/// Computed images of so many axes whose bytes are not the same either way.
bool is_plain_image(const BoundTensor& t, size_t rank) {
  return t.shape.size() == rank && t.layout == Layout::plain && t.type != DType::undefined && !t.constant.valid() &&
         !is_same_either_way(t.shape) && StridedCopy::can_move(element_bytes(t.type));
}

class AroundKernel final : public Kernel {
 public:
  AroundKernel(const BoundNode& node, const BoundNode& inside, std::unique_ptr<Kernel> inner, int threads)
      : inner_(std::move(inner)), in_(node.inputs.size()), out_(node.outputs.size()) {
    const auto add = [&](std::vector<Image>& list, size_t i, const BoundTensor& from, const BoundTensor& to) {
      list.push_back(
          {i, images_, StridedCopy(from.shape, memory_strides(from), memory_strides(to), element_bytes(from.type), threads)});
      images_ += aligned(storage_bytes(from.layout == Layout::nhwc ? from : to));
    };
    for (size_t i = 0; i < in_.size(); ++i) {
      if (node.inputs[i].layout != inside.inputs[i].layout) add(before_, i, node.inputs[i], inside.inputs[i]);
    }
    for (size_t i = 0; i < out_.size(); ++i) {
      if (node.outputs[i].layout != inside.outputs[i].layout) add(after_, i, inside.outputs[i], node.outputs[i]);
    }
  }

  int64_t workspace() const override { return images_ + inner_->workspace(); }

  void run(const Buffers& b) override {
    char* const images = static_cast<char*>(b.workspace);
    std::ranges::copy(b.inputs, in_.begin());
    std::ranges::copy(b.outputs, out_.begin());
    for (const Image& i : before_) {
      i.copy.run(images + i.offset, b.inputs[i.index]);
      in_[i.index] = images + i.offset;
    }
    for (const Image& i : after_) out_[i.index] = images + i.offset;
    inner_->run({in_, out_, images + images_});
    for (const Image& i : after_) i.copy.run(b.outputs[i.index], images + i.offset);
  }

 private:
  struct Image {
    size_t index;    // of the input or output
    int64_t offset;  // of its channels-last form in the workspace
    StridedCopy copy;
  };
  std::unique_ptr<Kernel> inner_;
  std::vector<Image> before_, after_;
  int64_t images_ = 0;  // bytes of all forms
  std::vector<const void*> in_;
  std::vector<void*> out_;
};

}  // namespace

std::optional<BoundNode> channels_last_inside(const BoundNode& node) {
  const size_t rank = node.outputs.empty() ? 0 : node.outputs[0].shape.size();
  if (rank < 3 || rank > 5 || !is_plain_image(node.outputs[0], rank)) return std::nullopt;
  BoundNode inside = node;
  const auto reorder = [&](BoundTensor& t) {
    if (!is_plain_image(t, rank)) return;
    t.layout = Layout::nhwc;
    t.strides.clear();
  };
  const size_t weight = conv::is_conv(*node.node) ? conv::arguments(*node.node).w : node.inputs.size();
  for (size_t i = 0; i < inside.inputs.size(); ++i)
    if (i != weight) reorder(inside.inputs[i]);
  for (BoundTensor& t : inside.outputs) reorder(t);
  return inside;
}

Candidate reordered(const BoundNode& node, const std::shared_ptr<const BoundNode>& inside, const Candidate& inner,
                    const Machine& machine) {
  double estimate = inner.estimate_us;
  const auto count = [&](const std::vector<BoundTensor>& outer, const std::vector<BoundTensor>& form) {
    for (size_t i = 0; i < outer.size(); ++i) {
      if (outer[i].layout != form[i].layout) estimate += reorder_estimate_us(outer[i], machine);
    }
  };
  count(node.inputs, inside->inputs);
  count(node.outputs, inside->outputs);
  const std::string config = inner.config + (inner.config.empty() ? "" : " ") + std::string(reordered_suffix);
  return {inner.tactic, config, estimate, [node, inside, prepare = inner.prepare, threads = machine.threads] {
            return std::make_unique<AroundKernel>(node, *inside, prepare(), threads);
          }};
}

}  // namespace smelt::ops
