// Convolutions of 8-bit integers on a GPU: cuDNN's 32-bit sums, which are exact, then what follows as a pointwise kernel, or
// where that is no more than to round and saturate, by cuDNN in the same graph. In this order, as the reference has it, without
// fused multiply-adds:
//
//   sum = Σ x' · w' + (bias − zero · Σ w')     x', w' and zero as i8: what is u8 less 128
//   in0 = float(sum) · scale,   y = program(in0, operands)
//
// cuDNN pads with zeros: an image that is padded with another zero point, or is u8, is first copied with its padding in place.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <span>

#include "base/value_of.h"
#include "ops/conv/cuda_request.h"
#include "ops/conv/int8_problem.h"
#include "ops/core/align.h"
#include "ops/core/channels_last.h"
#include "ops/core/key.h"
#include "ops/core/strides.h"
#include "ops/cuda/cudnn.h"
#include "ops/cuda/planned.h"
#include "ops/pointwise/offer.h"

namespace smelt::ops::conv {
namespace {

namespace cuda = device::cuda;
using expr::Fn;

constexpr size_t most_candidates = 4;

/// Where the kernel behind the sums finds what it reads: the sums, what is kept on the device, then the node's inputs.
enum BufferRef : size_t { place_sums, place_column, place_scales, places };

struct ByCudnn {
  Request q;
  std::shared_ptr<const Gpu> gpu;
  int32_t zero = 0;                      // of x as i8
  Shape image;                           // [N, C, spatial…] that cuDNN reads, with its padding where it is copied
  std::optional<PointwiseProblem> copy;  // of x into it
  int64_t copied_at = 0;                 // bytes of the image before x's first pixel
  bool column = false;                   // there is a number to add for each channel
  PointwiseProblem pass;                 // over the sums
  bool fused = false, relu = false;      // cuDNN writes y itself, after relu
};

/// Steps of one number for each of M channels, along y's axes.
Shape along_channels(size_t rank) {
  Shape steps(rank, 0);
  steps[1] = 1;
  return steps;
}

bool has_padding(const Problem& p) {
  return std::ranges::any_of(p.pad_begin, [](int64_t n) { return n != 0; }) ||
         std::ranges::any_of(p.pad_end, [](int64_t n) { return n != 0; });
}

std::optional<Refusal> rejects(const Request& q, const Gpu& gpu) {
  const Problem& p = q.problem;
  if (auto why = dnn_missing(gpu)) return why;
  if (p.input != DType::u8 && p.input != DType::i8) return refuse(Reason::wrong_type, "elements of {}", smelt::name(p.input));
  if (!fit_8_bits(q)) return refuse(Reason::wrong_value, "weights that have more than 8 bits less their zero points");
  if (p.spatial() != 2 && p.spatial() != 3)
    return refuse(Reason::wrong_rank, "{} spatial axes, it is asked for 2 or 3", p.spatial());
  if (p.group != 1) return refuse(Reason::wrong_attribute, "{} groups, its engines for 8 bits take one", p.group);
  if (elements(p.y) == 0 || elements(p.w) == 0 || elements(p.x[0].shape) == 0)
    return refuse(Reason::wrong_shape, "an empty tensor");
  const int64_t k = elements(p.w) / p.w[0];
  if (k >= int64_t{1} << 17)
    return refuse(Reason::not_exact, "K = {} of 8-bit products may overflow 32 bits; at most {}", k, (1 << 17) - 1);
  return std::nullopt;
}

/// x of i8 in the padded image: what is u8 less 128.
expr::Program narrowed(DType from) {
  expr::Program p;
  const expr::Ref x = p.input(from);
  p.output(from == DType::i8 ? x : p.cast(p.call(Fn::sub, p.cast(x, DType::i32), p.constant(DType::i32, 128)), DType::i8));
  return p;
}

ByCudnn problem_of(const Request& q, const std::shared_ptr<const Gpu>& gpu) {
  ByCudnn r{q, gpu, q.quantization().a_zero - (q.problem.input == DType::u8 ? 128 : 0), q.problem.x[0].shape, {}, 0, false, {}};
  const Problem& p = q.problem;
  const BoundTensor& x = q.node.inputs[q.at.x];
  const bool in_place = x.type == DType::i8 && (r.zero == 0 || !has_padding(p)) && is_channels_last(x) && x.alignment >= 16;
  if (!in_place) {
    for (size_t a = 0; a < p.spatial(); ++a) r.image[2 + a] += p.pad_begin[a] + p.pad_end[a];
    const Shape to = channels_last_strides(r.image);
    for (size_t a = 0; a < p.spatial(); ++a) r.copied_at += p.pad_begin[a] * to[2 + a];
    const int64_t alignment = std::gcd(r.copied_at, int64_t{256});
    r.copy = PointwiseProblem{narrowed(x.type), x.shape, {memory_strides(x), to}, {x.alignment, alignment}, {0}};
  }
  r.column = !q.quantization().bias.empty() || r.zero != 0;
  r.pass.program = over_sums(q, r.column);
  r.pass.shape = p.y;
  r.pass.fused_multiply_add = false;
  const auto add = [&](size_t place, Shape strides, int64_t alignment) {
    r.pass.present.push_back(place);
    r.pass.strides.push_back(std::move(strides));
    r.pass.alignments.push_back(alignment);
  };
  add(place_sums, channels_last_strides(p.y), 256);
  const size_t rank = p.y.size();
  if (r.column) add(place_column, along_channels(rank), 256);
  add(place_scales, q.quantization().scales.size() > 1 ? along_channels(rank) : Shape(rank, 0), 256);
  for (const EpilogueOperand& o : epilogue_operands(q.node, q.at.operands))
    add(places + o.input, broadcast_strides(o.tensor, p.y.size()), o.tensor.alignment);
  r.pass.strides.push_back(memory_strides(q.node.outputs[0]));
  r.pass.alignments.push_back(q.node.outputs[0].alignment);
  return r;
}

/// Whether y is in0 rounded and saturated to i8, which is what cuDNN does where it writes that; `relu`: after relu. Into u8 not
/// all of its engines compile.
bool only_rounds(const Request& q, bool& relu) {
  const expr::Program& p = value_of(q.node.node->program, "the program over the sums");
  const auto at = [&](expr::Ref r) -> const expr::Instruction& { return p.code()[static_cast<size_t>(r)]; };
  const auto is_constant = [&](expr::Ref r, double value) { return at(r).fn == Fn::constant && at(r).value == value; };
  if (q.node.outputs[0].type != DType::i8 || p.input_count() != 1 || p.outputs().size() != 1) return false;
  const expr::Instruction& cast = at(p.outputs()[0]);
  if (cast.fn != Fn::cast) return false;
  const expr::Instruction& clip = at(cast.args[0]);
  if (clip.fn != Fn::clip || !is_constant(clip.args[1], -128) || !is_constant(clip.args[2], 127)) return false;
  const expr::Instruction& add = at(clip.args[0]);
  if (add.fn != Fn::add || !is_constant(add.args[1], 0) || at(add.args[0]).fn != Fn::round) return false;
  expr::Ref from = at(add.args[0]).args[0];
  relu = at(from).fn == Fn::relu;
  if (relu) from = at(from).args[0];
  return at(from).fn == Fn::input && at(from).type == DType::f32;
}

void describe(const ByCudnn& r, cuda::DnnGraph& g) {
  const Problem& p = r.q.problem;
  BoundTensor image = r.q.node.inputs[r.q.at.x];
  if (r.copy) image = {DType::i8, r.image, Layout::nhwc, {}, {}};
  const size_t rank = p.y.size();
  const auto [shape, strides] = dnn_image(image, rank);
  const size_t x = g.tensor(DType::i8, shape, strides, 16), w = g.tensor(DType::i8, p.w, channels_last_strides(p.w), 16);
  const Shape none(p.spatial(), 0), result = channels_last_strides(p.y);
  Shape one(rank, 1);
  one[1] = p.y[1];
  const auto between = [&](cuda::abi::DnnType type) { return g.between(type, p.y, result); };
  size_t sums = between(cuda::abi::dnn_i32);
  g.convolve(x, w, sums, DType::i32, p.stride, p.dilation, r.copy ? none : p.pad_begin, r.copy ? none : p.pad_end);
  if (!r.fused) {
    // The convolution alone into i32 has engines that write f32's bits (cuDNN 9.14 and 9.19).
    g.pointwise({cuda::abi::dnn_identity, cuda::abi::dnn_i32}, {sums}, g.tensor(DType::i32, p.y, result, 16));
    return;
  }
  if (r.column) {
    const size_t column = g.tensor(DType::i32, one, channels_last_strides(one), 16), added = between(cuda::abi::dnn_i32);
    g.pointwise({cuda::abi::dnn_add, cuda::abi::dnn_i32}, {sums, column}, added);
    sums = added;
  }
  const size_t scales = g.tensor(DType::f32, one, channels_last_strides(one), 16);
  const BoundTensor& output = r.q.node.outputs[0];
  const size_t y = g.tensor(output.type, p.y, dnn_image(output, rank).second, 16);
  const size_t scaled = r.relu ? between(cuda::abi::dnn_f32) : y;
  g.pointwise({cuda::abi::dnn_mul}, {sums, scales}, scaled);
  if (r.relu) g.pointwise({cuda::abi::dnn_relu}, {scaled}, y);
}

/// The weights as i8, [M, kernel…, C].
std::shared_ptr<cuda::Memory> weights_of(const ByCudnn& r) {
  const Tensor& w = r.q.weight().constant;
  return channels_last_weights(*r.gpu, w, w.type() == DType::u8 ? 128 : 0);
}

/// The fastest by its estimate: what it takes is little beside the convolution.
std::unique_ptr<Kernel> pointwise(const PointwiseProblem& p, const Gpu& gpu) {
  Offer offer;
  offer_pointwise_cuda(p, gpu, offer);
  return std::ranges::min_element(offer.candidates, {}, &Candidate::estimate_us)->prepare();
}

class Int8Cudnn final : public Kernel {
 public:
  Int8Cudnn(const ByCudnn& r, DnnProblem& problem, size_t engine)
      : x_(r.q.at.x),
        first_operand_(r.q.at.operands),
        copied_at_(r.copied_at),
        zero_(static_cast<uint8_t>(r.zero)),
        device_(r.gpu->device),
        plan_(problem.plan(engine)),
        weights_(weights_of(r)) {
    if (r.copy) {
      copy_ = pointwise(*r.copy, *r.gpu);
      filled_ = r.copied_at != 0 || r.image != r.q.problem.x[0].shape ? elements(r.image) : 0;
      image_bytes_ = device_aligned(elements(r.image));
    }
    if (!r.fused) {
      pass_ = pointwise(r.pass, *r.gpu);
      sums_bytes_ = device_aligned(elements(r.q.problem.y) * 4);
    }
    if (r.column) kept_[place_column] = kept_column(*r.gpu, r.q, r.zero);
    kept_[place_scales] = kept_scales(*r.gpu, r.q);
    inputs_.resize(places + r.q.node.inputs.size());
  }

  int64_t workspace() const override { return image_bytes_ + sums_bytes_ + plan_->workspace(); }
  bool reads(size_t i) const override { return i == x_ || i >= first_operand_; }

  void run(const Buffers& b) override {
    PlannedLaunches* const planned = PlannedLaunches::current();
    char* const image = static_cast<char*>(b.workspace);
    char* const sums = image + image_bytes_;
    const auto stream = static_cast<cuda::abi::Stream>(b.stream);
    const void* x = b.inputs[x_];
    if (copy_) {
      const cuda::Device::Current current(*device_);
      const auto address = reinterpret_cast<cuda::abi::Address>(image);
      if (planned)
        planned->add_other("fill", filled_);
      else if (filled_ > 0)
        cuda::check(cuda::driver().fill_bytes(address, zero_, static_cast<size_t>(filled_), stream), "padding an image");
      void* const pixels = image + copied_at_;
      copy_->run({std::span(&x, 1), std::span(&pixels, 1), nullptr, b.stream});
      x = image;
    }
    pointers_.assign({x, reinterpret_cast<const void*>(weights_->address())});
    inputs_[place_sums] = sums;
    for (const BufferRef p : {place_column, place_scales}) {
      inputs_[p] = kept_[p] ? reinterpret_cast<const void*>(kept_[p]->address()) : nullptr;
      if (!pass_ && kept_[p]) pointers_.push_back(inputs_[p]);
    }
    pointers_.push_back(pass_ ? sums : b.outputs[0]);
    if (planned)
      planned->add_other("cuDNN");
    else
      plan_->run(pointers_, sums + sums_bytes_, stream);
    if (!pass_) return;
    std::ranges::copy(b.inputs, inputs_.begin() + places);
    pass_->run({inputs_, b.outputs, nullptr, b.stream});
  }

 private:
  size_t x_, first_operand_;
  int64_t copied_at_, filled_ = 0, image_bytes_ = 0, sums_bytes_ = 0;
  uint8_t zero_;
  std::shared_ptr<cuda::Device> device_;
  std::shared_ptr<cuda::DnnPlan> plan_;
  std::shared_ptr<cuda::Memory> weights_;
  std::array<std::shared_ptr<cuda::Memory>, places> kept_;
  std::unique_ptr<Kernel> copy_, pass_;
  std::vector<const void*> pointers_;  // of the plan
  std::vector<const void*> inputs_;    // of the kernel behind the sums
};

void offer_form(const std::shared_ptr<const ByCudnn>& r, Offer& offer) {
  const Request& q = r->q;
  const std::string form = std::string(r->copy ? " copied" : "") + (r->fused ? " fused" : "");
  Key key("quantized");
  key.option("", form).flag(" column", r->column).option(" ", offer.problem);
  key.aligned(q.node.inputs[q.at.x]).aligned(q.node.outputs[0]);
  const auto problem =
      DnnProblem::find(*r->gpu, key, "convolution of 8-bit integers" + form, offer, [&](cuda::DnnGraph& g) { describe(*r, g); });
  if (!problem) return;
  const Problem& p = q.problem;
  const int64_t image = elements(p.x[0].shape), result = elements(p.y);
  const auto moved = static_cast<double>(image * (r->copy ? 3 : 1) + elements(p.w) + result * (r->fused ? 1 : 9));
  // Its engines walk K one step behind the other, and write results at some 1 TB/s, sums and the pass over them at a third of it. Fitted to the
  // fastest engines of 66 problems on an H200 (bench/results/gpu-conv-2026-11-28-engines.txt): eight of ten times lie between 0.92 and 1.27 of it.
  const device::cuda::DeviceInfo& gpu = r->gpu->info;
  const double slower = 132.0 * 1980 / std::max(1, gpu.multiprocessors) / std::max(1.0, static_cast<double>(gpu.clock_mhz));
  const double work = static_cast<double>(result) * 1e-6 * (r->fused ? 0.96 : 3.16) + p.flops() / 2 * 1e-9 * 0.62;
  const double walk = (r->fused ? 3.5 : 5.3) + 0.00094 * static_cast<double>(depth(p)) + slower * work;
  const double copied = r->copy ? 4 + 2 * static_cast<double>(image) / std::max(gpu.bandwidth, 1e5) : 0;
  const double estimate = std::max(gpu_estimate_us(*r->gpu, moved, p.flops() / 2), walk + copied);
  for (size_t i = 0; i < std::min(most_candidates, problem->engines().size()); ++i)
    offer.candidates.push_back({"cudnn", problem->engines()[i].name + form, estimate * (1 + 0.03 * static_cast<double>(i)),
                                [r, problem, i] { return std::make_unique<Int8Cudnn>(*r, *problem, i); }});
}

}  // namespace

void offer_int8_cudnn(const Request& q, const std::shared_ptr<const Gpu>& gpu, Offer& offer) {
  if (const auto why = rejects(q, *gpu)) return offer.refuse("cudnn", *why);
  ByCudnn r = problem_of(q, gpu);
  offer_form(std::make_shared<const ByCudnn>(r), offer);
  const BoundTensor& y = q.node.outputs[0];
  r.fused = is_channels_last(y) && y.alignment >= 16 && only_rounds(q, r.relu);
  if (r.fused) offer_form(std::make_shared<const ByCudnn>(std::move(r)), offer);
}

}  // namespace smelt::ops::conv
