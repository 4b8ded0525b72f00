// Convolutions of 8-bit integers over a copy of the image, on a GPU: those whose image's zero point is computed (DynamicQuantizeLinear's),
// and ConvInteger over plain images. The copy has the padding in place, which is the zero point, so that every window lies inside and
// kernels multiply the image as it is; and its channels side by side, as tensor cores want them. What a computed zero point adds to a sum
// is the same for all pixels of a channel, and is taken from it behind the products (cuda_int8_request.cpp).
#include <algorithm>

#include "ops/conv/cuda_request.h"
#include "ops/conv/int8_problem.h"
#include "ops/core/align.h"
#include "ops/core/channels_last.h"
#include "ops/core/strides.h"
#include "ops/movement/cuda_axes.h"

namespace smelt::ops::conv {
namespace {

struct Copied {
  SharedRequest request;  // over the copy
  Offer copy, product;    // copy: no candidates where the image is read where it lies
  int64_t bytes = 0;      // of the copy
};

class OverCopy final : public Kernel {
 public:
  OverCopy(const Copied& p, size_t way)
      : x_(p.request->at.x),
        zero_(p.request->quantization().a_zero_input),
        bytes_(device_aligned(p.bytes)),
        copy_(p.copy.candidates.front().prepare()),
        inner_(p.product.candidates[way].prepare()) {}

  int64_t workspace() const override { return bytes_ + std::max(copy_->workspace(), inner_->workspace()); }
  bool reads(size_t i) const override { return i == x_ || zero_ == i || inner_->reads(i); }
  bool in_place(size_t i) const override { return i != x_ && inner_->in_place(i); }

  void run(const Buffers& b) override {
    char* const memory = static_cast<char*>(b.workspace);
    const void* const from[] = {b.inputs[x_], zero_ ? b.inputs[*zero_] : nullptr};
    void* const to[] = {memory};
    copy_->run({from, to, memory + bytes_, b.stream});
    given_.assign(b.inputs.begin(), b.inputs.end());
    given_[x_] = memory;
    inner_->run({given_, b.outputs, memory + bytes_, b.stream});
  }

 private:
  size_t x_;
  std::optional<size_t> zero_;
  int64_t bytes_;
  std::unique_ptr<Kernel> copy_, inner_;
  std::vector<const void*> given_;
};

bool any(const Shape& s) {
  return std::ranges::any_of(s, [](int64_t pad) { return pad > 0; });
}

/// Whether the image is to be turned: one product is of the channels.
bool turns(const Request& q) {
  const BoundTensor& x = q.node.inputs[q.at.x];
  return q.problem.group == 1 && !is_channels_last(x) && x.shape[1] > 1;
}

/// The request over the copy, and in `copy` what makes it, where there is need of one.
Request copied(const Request& q, const Gpu& gpu, Offer& copy) {
  Request r = q;
  Problem& p = r.problem;
  if (!any(p.pad_begin) && !any(p.pad_end) && !turns(q)) return r;
  const BoundTensor x = r.node.inputs[r.at.x];
  BoundTensor& image = r.node.inputs[r.at.x];
  image = {.type = x.type, .shape = x.shape, .layout = turns(q) ? Layout::nhwc : x.layout};
  for (size_t a = 0; a < p.spatial(); ++a) image.shape[a + 2] += p.pad_begin[a] + p.pad_end[a];
  std::vector<MappedAxis> axes = axes_of(x, image);
  for (size_t a = 0; a < p.spatial(); ++a) {
    if (p.pad_begin[a] + p.pad_end[a] == 0) continue;
    for (int64_t i = -p.pad_begin[a]; i < x.shape[a + 2] + p.pad_end[a]; ++i)
      axes[a + 2].places.push_back(i < x.shape[a + 2] ? std::max<int64_t>(i, -1) : -1);
  }
  BoundNode moved{nullptr, {x}, {image}, nullptr};
  AxesFill fill;
  if (const std::optional<size_t> zero = q.quantization().a_zero_input)
    moved.inputs.push_back(q.node.inputs[*zero]), fill.input = 1;
  else
    fill.element = element_of(Tensor::scalar<int64_t>(q.quantization().a_zero).cast(x.type));
  offer_by_axes(std::move(axes), moved, std::move(fill), "pad", gpu, copy);
  p.x[0] = {image.shape, 1, {}};
  p.from = image.layout;
  p.pad_begin.assign(p.spatial(), 0), p.pad_end.assign(p.spatial(), 0);
  return r;
}

}  // namespace

void offer_over_copy(const Request& q, const std::shared_ptr<const Gpu>& gpu, Offer& offer) {
  if (q.problem.blocked || !q.quantization().more.empty())
    return offer.refuse("cuda", Reason::not_constant, "the image's zero point is not constant");
  constexpr int64_t most = int64_t{1} << 31;
  double elements_padded = static_cast<double>(q.problem.y[0] * q.problem.channels());
  for (size_t a = 0; a < q.problem.spatial(); ++a)
    elements_padded *= static_cast<double>(q.problem.x[0].shape[a + 2] + q.problem.pad_begin[a] + q.problem.pad_end[a]);
  if (elements_padded >= static_cast<double>(most))
    return offer.refuse("cuda", Reason::too_large, "a copied image of {} elements; it counts to 2^31", elements_padded);
  const auto made = std::make_shared<Copied>();
  const Request inside = copied(q, *gpu, made->copy);
  if (!made->copy.refused.empty()) return offer.refuse("cuda", made->copy.refused.front().why);
  const auto request = int8_gpu_request(inside, gpu);
  if (!request) return offer.refuse("cuda", request.refusal());
  made->request = *request;
  made->product.problem = offer.problem;
  for (const CudaTactic& t : cuda_tactics)
    if (t.integers) t.offer(made->request, made->product);
  for (const RefusedTactic& r : made->product.refused) offer.refuse(r.tactic, r.why);
  if (made->copy.candidates.empty()) {
    offer.candidates = std::move(made->product.candidates);
    return;
  }
  const Candidate& copy = made->copy.candidates.front();
  made->bytes = storage_bytes(inside.node.inputs[inside.at.x]);
  for (size_t way = 0; way < made->product.candidates.size(); ++way) {
    const Candidate& c = made->product.candidates[way];
    offer.candidates.push_back({c.tactic, c.config + " copied", c.estimate_us + copy.estimate_us,
                                [made, way] { return std::make_unique<OverCopy>(*made, way); }, c.lengthy});
  }
}

}  // namespace smelt::ops::conv
