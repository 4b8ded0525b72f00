// Col2Im on the processor: the planes of the image by threads, each one's columns added to it tap by tap.
#include <algorithm>

#include "ops/conv/col2im.h"
#include "ops/conv/family.h"
#include "ops/core/align.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"

namespace smelt::ops {
namespace {

class Col2ImKernel final : public Kernel {
 public:
  Col2ImKernel(Blocks blocks, const BoundNode& b, int threads)
      : blocks_(std::move(blocks)),
        type_(b.inputs[0].type),
        planes_(b.inputs[0].shape[0] * blocks_.channels),
        image_(elements(blocks_.image)),
        places_(elements(blocks_.places)),
        threads_(useful_threads(threads, 2 * elements(b.inputs[0].shape))) {}

  /// Planes of 16-bit floats are added up in f32.
  int64_t workspace() const override { return type_ == DType::f16 || type_ == DType::bf16 ? threads_ * aligned(image_ * 4) : 0; }

  void run(const Buffers& b) override {
    parallel(threads_, planes_, 1, [&](int64_t begin, int64_t end, int thread) {
      for (int64_t plane = begin; plane < end; ++plane) {
        switch (type_) {
          case DType::f32: add(column<float>(b, plane), to<float>(b, plane)); break;
          case DType::f64: add(column<double>(b, plane), to<double>(b, plane)); break;
          case DType::i32:
          case DType::u32: add(column<uint32_t>(b, plane), to<uint32_t>(b, plane)); break;
          case DType::i64:
          case DType::u64: add(column<uint64_t>(b, plane), to<uint64_t>(b, plane)); break;
          case DType::f16: add_halves(column<Half>(b, plane), to<Half>(b, plane), scratch(b, thread)); break;
          default: add_halves(column<BFloat>(b, plane), to<BFloat>(b, plane), scratch(b, thread)); break;
        }
      }
    });
  }

 private:
  template <class T> const T* column(const Buffers& b, int64_t plane) const {
    return static_cast<const T*>(b.inputs[0]) + plane * elements(blocks_.window.kernel) * places_;
  }
  template <class T> T* to(const Buffers& b, int64_t plane) const { return static_cast<T*>(b.outputs[0]) + plane * image_; }
  float* scratch(const Buffers& b, int thread) const {
    return reinterpret_cast<float*>(static_cast<char*>(b.workspace) + thread * aligned(image_ * 4));
  }

  template <class T, class A> void add(const T* column, A* y) const {
    std::fill_n(y, image_, A{});
    const int64_t stride = blocks_.window.stride.back();
    Shape tap(blocks_.window.rank(), 0);
    do {
      for_runs(blocks_.window, blocks_.places, blocks_.image, tap, [&](int64_t place, int64_t point, int64_t count) {
        const T* __restrict from = column + place;
        A* __restrict into = y + point;
        if (stride == 1)
          for (int64_t i = 0; i < count; ++i) into[i] += static_cast<A>(from[i]);
        else
          for (int64_t i = 0; i < count; ++i) into[i * stride] += static_cast<A>(from[i]);
      });
      column += places_;
    } while (advance(tap, blocks_.window.kernel));
  }

  template <class T> void add_halves(const T* column, T* y, float* sums) const {
    add(column, sums);
    for (int64_t i = 0; i < image_; ++i) y[i] = T(sums[i]);
  }

  Blocks blocks_;
  DType type_;
  int64_t planes_, image_, places_;
  int threads_;
};

void offer_col2im_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  const DType type = b.inputs[0].type;
  if (type != DType::f32 && type != DType::f64 && type != DType::f16 && type != DType::bf16 &&
      !(is_integer(type) && bits(type) >= 32))
    return offer.refuse("cpu", Reason::wrong_type, "elements of {}", name(type));
  if (!b.constant(1) || !b.constant(2)) return offer.refuse("cpu", Reason::not_constant, "its image or its block is computed");
  if (const auto why = rejects_layouts(b)) return offer.refuse("cpu", *why);
  if (elements(b.outputs[0].shape) == 0) return offer.refuse("cpu", Reason::wrong_shape, "an empty tensor");
  const Blocks blocks = blocks_of(*b.node, b.inputs[0].shape, b.constant(1)->to_ints(), b.constant(2)->to_ints());
  const double estimate = 1 + static_cast<double>(elements(b.inputs[0].shape)) / 1500 / machine.threads;
  offer.candidates.push_back({"cpu", "", estimate, [b, blocks, threads = machine.threads] {
                                return std::make_unique<Col2ImKernel>(blocks, b, threads);
                              }});
}

constexpr OperatorTactics operators[] = {
    {[](const Node& node) { return node.is("Col2Im"); }, offer_col2im_cpu, offer_col2im_cuda}};

}  // namespace

constinit const TacticFamily col2im_family{operators};

}  // namespace smelt::ops
