// Movement along strides and rows, prepared once: Transpose, Slice, Expand, Split and Gather. The rest of the family runs through
// its references.
#include <fmt/core.h>

#include <atomic>
#include <cstring>

#include "base/error.h"
#include "ops/core/family.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/strided_copy.h"
#include "ops/cuda/strided_copy.h"
#include "ops/movement/windows.h"

namespace smelt::ops {
namespace {

/// The outputs as windows of the input; a null output is left out.
class WindowKernel final : public Kernel {
 public:
  WindowKernel(const BoundNode& b, const std::vector<StridedWindow>& windows, int threads)
      : size_(element_bytes(b.inputs[0].type)) {
    for (size_t i = 0; i < windows.size(); ++i) {
      const BoundTensor& y = b.outputs[i];
      offsets_.push_back(windows[i].offset * size_);
      copies_.emplace_back(y.shape, windows[i].strides, y.type == DType::undefined ? Shape() : memory_strides(y), size_, threads);
    }
  }

  void run(const Buffers& b) override {
    for (size_t i = 0; i < copies_.size(); ++i) {
      if (b.outputs[i]) copies_[i].run(b.outputs[i], static_cast<const char*>(b.inputs[0]) + offsets_[i]);
    }
  }

 private:
  int64_t size_;
  std::vector<int64_t> offsets_;  // bytes
  std::vector<StridedCopy> copies_;
};

/// y[o, i, :] = x[o, index[i], :], with x [outer, extent, inner] around the axis.
class GatherKernel final : public Kernel {
 public:
  GatherKernel(const BoundNode& b, int threads) : wide_(b.inputs[1].type == DType::i64) {
    const Shape& x = b.inputs[0].shape;
    const auto axis = static_cast<size_t>(normalize_axis(b.node->get_int("axis", 0), static_cast<int64_t>(x.size())));
    outer_ = elements(Shape(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(axis)));
    extent_ = x[axis];
    row_bytes_ = elements(Shape(x.begin() + static_cast<std::ptrdiff_t>(axis) + 1, x.end())) * element_bytes(b.inputs[0].type);
    count_ = elements(b.inputs[1].shape);
    threads_ = useful_threads(threads, 2 * outer_ * count_ * row_bytes_);
  }

  void run(const Buffers& b) override {
    std::atomic<int64_t> wrong = in_range;
    parallel(threads_, outer_ * count_, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r) {
        const int64_t o = r / count_, i = r % count_;
        const int64_t given = wide_ ? static_cast<const int64_t*>(b.inputs[1])[i] : static_cast<const int32_t*>(b.inputs[1])[i];
        if (given < -extent_ || given >= extent_) {
          wrong.store(given);
          continue;
        }
        const int64_t index = given < 0 ? given + extent_ : given;
        std::memcpy(static_cast<char*>(b.outputs[0]) + r * row_bytes_,
                    static_cast<const char*>(b.inputs[0]) + (o * extent_ + index) * row_bytes_, static_cast<size_t>(row_bytes_));
      }
    });
    if (wrong != in_range) fail("index {} is outside [{}, {})", wrong.load(), -extent_, extent_);
  }

 private:
  static constexpr int64_t in_range = 0;  // an index of 0 is wrong only when there is nothing to gather from
  bool wide_;
  int threads_ = 1;
  int64_t outer_ = 1, extent_ = 0, row_bytes_ = 0, count_ = 0;
};

std::vector<StridedWindow> split_windows(const BoundNode& b) {
  const BoundTensor& x = b.inputs[0];
  const auto axis = static_cast<size_t>(normalize_axis(b.node->get_int("axis", 0), static_cast<int64_t>(x.shape.size())));
  std::vector<StridedWindow> windows;
  int64_t begin = 0;
  for (const BoundTensor& y : b.outputs) {
    windows.push_back({begin * strides(x.shape)[axis], strides(x.shape)});
    begin += y.shape[axis];
  }
  return windows;
}

/// Constant integers of input i, or nothing where it is left out.
std::optional<std::vector<int64_t>> ints(const BoundNode& b, size_t i) {
  if (i >= b.inputs.size() || b.inputs[i].type == DType::undefined) return std::nullopt;
  return b.inputs[i].constant.to_ints();
}

std::vector<StridedWindow> windows_of(const BoundNode& b) {
  const BoundTensor& x = b.inputs[0];
  if (b.node->op == "Transpose") return {transpose_window(*b.node, x.shape)};
  if (b.node->op == "Expand") return {{0, broadcast_strides(x, b.outputs[0].shape.size())}};
  if (b.node->op == "Split") return split_windows(b);
  return {slice_window(slice_range(x.shape, ints(b, 1).value_or(std::vector<int64_t>{}),
                                   ints(b, 2).value_or(std::vector<int64_t>{}), ints(b, 3), ints(b, 4)),
                       x.shape)};
}

std::optional<std::string> reject(const BoundNode& b) {
  const Node& node = *b.node;
  for (const auto* tensors : {&b.inputs, &b.outputs}) {
    for (const BoundTensor& t : *tensors) {
      if (t.layout != Layout::plain || !t.strides.empty()) return "tensors that are not dense and row-major";
    }
  }
  if (!StridedCopy::can_move(element_bytes(b.inputs[0].type)))
    return fmt::format("elements of {}", smelt::name(b.inputs[0].type));
  if (node.op == "Gather") {
    const DType index = b.inputs[1].type;
    if (index != DType::i64 && index != DType::i32) return fmt::format("indices of {}", smelt::name(index));
    if (elements(b.inputs[0].shape) == 0) return "nothing to gather from";
    return std::nullopt;
  }
  constexpr size_t most_axes = 8;
  if (b.inputs[0].shape.size() > most_axes || b.outputs[0].shape.size() > most_axes)
    return fmt::format("more than {} axes", most_axes);
  for (const BoundTensor& y : b.outputs) {
    if (y.type == DType::undefined) return "an output is left out";
  }
  if (node.op == "Slice") {
    if (b.inputs.size() < 3) return "starts and ends are attributes";
    for (size_t i = 1; i < b.inputs.size(); ++i) {
      if (b.inputs[i].type != DType::undefined && !b.inputs[i].constant.valid()) return "the range is not known before the run";
    }
    if (elements(b.outputs[0].shape) == 0) return "nothing to copy";
  }
  return std::nullopt;
}

}  // namespace

bool movement_handles(const Node& node) {
  return node.is("Transpose") || node.is("Slice") || node.is("Expand") || node.is("Split") || node.is("Gather");
}

void movement_offer(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (auto reason = reject(b)) {
    offer.rejected.push_back({"cpu", *reason});
    return;
  }
  int64_t moved = 0;
  for (const BoundTensor& y : b.outputs) moved += storage_bytes(y);
  constexpr double bytes_per_us = 4e3;
  const double estimate = 1 + 2.0 * static_cast<double>(moved) / bytes_per_us / machine.threads;
  offer.candidates.push_back({"cpu", "", estimate, [b, threads = machine.threads]() -> std::unique_ptr<Kernel> {
                                if (b.node->op == "Gather") return std::make_unique<GatherKernel>(b, threads);
                                return std::make_unique<WindowKernel>(b, windows_of(b), threads);
                              }});
}

void movement_gpu_offer(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (b.node->op == "Gather") return;  // its own family there
  if (auto reason = reject(b)) return offer.rejected.push_back({"cuda", *reason});
  std::vector<StridedMove> moves;
  const std::vector<StridedWindow> windows = windows_of(b);
  for (size_t i = 0; i < windows.size(); ++i)
    moves.push_back({b.outputs[i].shape, windows[i].strides, memory_strides(b.outputs[i]), windows[i].offset, i});
  offer_moves_cuda(b, std::move(moves), *machine.gpu, offer);
}

}  // namespace smelt::ops
