#include "ops/conv/joined.h"

#include <algorithm>

#include "ops/conv/problem.h"
#include "ops/conv/segments.h"
#include "ops/core/align.h"
#include "ops/core/strides.h"
#include "ops/core/wanted_inside.h"
#include "ops/cpu/strided_copy.h"

namespace smelt::ops::conv {
namespace {

/// An input's place in the image that holds all of them.
struct Part {
  StridedCopy copy;
  int64_t offset;  // bytes
};

class JoinedKernel final : public Kernel {
 public:
  JoinedKernel(std::unique_ptr<Kernel> inner, std::vector<Part> parts, int64_t image)
      : inner_(std::move(inner)), parts_(std::move(parts)), image_(aligned(image)) {}

  int64_t workspace() const override { return image_ + inner_->workspace(); }

  void run(const Buffers& b) override {
    char* const image = static_cast<char*>(b.workspace);
    for (size_t i = 0; i < parts_.size(); ++i) parts_[i].copy.run(image + parts_[i].offset, b.inputs[i]);
    inputs_.assign(1, image);
    inputs_.insert(inputs_.end(), b.inputs.begin() + static_cast<int64_t>(parts_.size()), b.inputs.end());
    inner_->run({inputs_, b.outputs, image + image_, nullptr});
  }

 private:
  std::unique_ptr<Kernel> inner_;
  std::vector<Part> parts_;
  int64_t image_;  // bytes
  std::vector<const void*> inputs_;
};

/// Copies x to `to`, each spatial element `factor` times along its axis.
StridedCopy upsampling(const BoundTensor& x, const Shape& to, int64_t factor, int threads) {
  const Shape own = memory_strides(x);
  Shape extents, from, steps;
  for (size_t a = 0; a < own.size(); ++a) {
    extents.push_back(x.shape[a]);
    from.push_back(own[a]);
    steps.push_back(a < 2 ? to[a] : to[a] * factor);
    if (a < 2 || factor == 1) continue;
    extents.push_back(factor);
    from.push_back(0);
    steps.push_back(to[a]);
  }
  return {extents, from, steps, element_bytes(x.type), threads};
}

}  // namespace

void offer_joined(const BoundNode& node, const Machine& machine, OfferTactics offer, Offer& o) {
  const WantedInside wanted(o.wanted, inputs_joined);
  if (!wanted.wraps() || node.node->domain != smelt_domain) return;
  const ConvSegments segments(*node.node);
  if (segments.count == 1 && segments.upsample[0] == 1) return;
  const BoundTensor& first = node.inputs[0];
  if (!StridedCopy::can_move(element_bytes(first.type))) return;
  BoundTensor image = first;
  image.strides.clear();
  image.shape[1] = 0;
  for (size_t a = 2; a < image.shape.size(); ++a) image.shape[a] *= segments.upsample[0];
  for (size_t i = 0; i < segments.count; ++i) {
    if (node.inputs[i].layout != first.layout || node.inputs[i].type != first.type) return;
    image.shape[1] += node.inputs[i].shape[1];
  }

  auto own = std::make_shared<Node>(*node.node);
  own->attrs["segments"] = int64_t{1};
  own->attrs.erase("upsample");
  own->inputs.erase(own->inputs.begin(), own->inputs.begin() + static_cast<int64_t>(segments.count) - 1);
  BoundNode inside = node;
  inside.node = own.get();
  inside.inputs.erase(inside.inputs.begin(), inside.inputs.begin() + static_cast<int64_t>(segments.count) - 1);
  inside.inputs[0] = image;

  std::vector<Part> parts;
  const Shape steps = memory_strides(image);
  int64_t channel = 0;
  for (size_t i = 0; i < segments.count; ++i) {
    parts.push_back({upsampling(node.inputs[i], steps, segments.upsample[i], machine.threads),
                     channel * steps[1] * element_bytes(image.type)});
    channel += node.inputs[i].shape[1];
  }
  constexpr double bytes_per_us = 4e3;
  const double copying = 1 + 2.0 * static_cast<double>(storage_bytes(image)) / bytes_per_us / machine.threads;

  Offer inner;
  inner.wanted = wanted.wanted();
  offer(inside, machine, inner);
  wanted.keep(inner.candidates);
  // What reads the segments where they lie has no use for the copies.
  std::erase_if(inner.candidates, [&](const Candidate& c) {
    return std::ranges::any_of(o.candidates, [&](const Candidate& d) { return d.tactic == c.tactic && d.config == c.config; });
  });
  std::ranges::stable_sort(inner.candidates, {}, &Candidate::estimate_us);
  constexpr size_t best = 2;
  if (inner.candidates.size() > best) inner.candidates.erase(inner.candidates.begin() + best, inner.candidates.end());
  for (const Candidate& c : inner.candidates) {
    const std::string config = c.config + (c.config.empty() ? "" : ", ") + std::string(inputs_joined);
    o.candidates.push_back({c.tactic, config, c.estimate_us + copying,
                            [own, prepare = c.prepare, parts, bytes = storage_bytes(image)] {
                              return std::make_unique<JoinedKernel>(prepare(), parts, bytes);
                            },
                            c.lengthy});
  }
}

}  // namespace smelt::ops::conv
