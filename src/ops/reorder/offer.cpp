// ai.smelt Reorder: the same tensor in another layout or with other strides. Both sides are walked along the axis that is
// innermost in each, in square tiles, so that neither is read or written a cache line at a time for one element.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "ops/igemm/row_map.h"
#include "ops/strides.h"
#include "ops/tactics.h"

namespace smelt::ops {
namespace {

constexpr int64_t tile = 16;

/// to[i * to_row + j * to_column] = from[…] for a tile.
template <class T>
void copy_tile(T* to, const T* from, int64_t rows, int64_t columns, int64_t to_row, int64_t to_column, int64_t from_row, int64_t from_column) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) to[i * to_row + j * to_column] = from[i * from_row + j * from_column];
  }
}

class ReorderKernel final : public Kernel {
 public:
  ReorderKernel(const BoundTensor& from, const BoundTensor& to, int threads) : threads_(threads), bytes_(bytes(from.type, 1)) {
    const Shape from_steps = memory_strides(from), to_steps = memory_strides(to);
    const size_t rank = from.shape.size();
    // The innermost axis of each side, among those longer than 1.
    const auto innermost = [&](const Shape& steps) {
      size_t best = rank;
      for (size_t a = 0; a < rank; ++a) {
        if (from.shape[a] > 1 && (best == rank || steps[a] < steps[best])) best = a;
      }
      return best;
    };
    const size_t row = innermost(from_steps), column = innermost(to_steps);
    Shape grid, from_grid, to_grid;
    for (size_t a = 0; a < rank; ++a) {
      if (a == row || a == column) continue;
      grid.push_back(from.shape[a]);
      from_grid.push_back(from_steps[a]);
      to_grid.push_back(to_steps[a]);
    }
    from_ = igemm::RowMap(grid, from_grid);
    to_ = igemm::RowMap(grid, to_grid);
    planes_ = elements(grid);
    if (column < rank) columns_ = from.shape[column], from_column_ = from_steps[column], to_column_ = to_steps[column];
    if (row < rank && row != column) rows_ = from.shape[row], from_row_ = from_steps[row], to_row_ = to_steps[row];
  }

  void run(const Buffers& b) override {
    switch (bytes_) {
      case 1: return copy(static_cast<uint8_t*>(b.outputs[0]), static_cast<const uint8_t*>(b.inputs[0]));
      case 2: return copy(static_cast<uint16_t*>(b.outputs[0]), static_cast<const uint16_t*>(b.inputs[0]));
      case 4: return copy(static_cast<uint32_t*>(b.outputs[0]), static_cast<const uint32_t*>(b.inputs[0]));
      default: return copy(static_cast<uint64_t*>(b.outputs[0]), static_cast<const uint64_t*>(b.inputs[0]));
    }
  }

 private:
  template <class T> void copy(T* to, const T* from) const {
    const int64_t bands = (rows_ + tile - 1) / tile;
#pragma omp parallel for num_threads(threads_) schedule(static)
    for (int64_t task = 0; task < planes_ * bands; ++task) {
      const int64_t plane = task / bands, i = task % bands * tile;
      T* out = to + to_.offset(plane) + i * to_row_;
      const T* in = from + from_.offset(plane) + i * from_row_;
      const int64_t rows = std::min(tile, rows_ - i);
      if (rows_ == 1 && to_column_ == 1 && from_column_ == 1) {
        std::memcpy(out, in, static_cast<size_t>(columns_) * sizeof(T));
        continue;
      }
      for (int64_t j = 0; j < columns_; j += tile) {
        copy_tile(out + j * to_column_, in + j * from_column_, rows, std::min(tile, columns_ - j), to_row_, to_column_, from_row_, from_column_);
      }
    }
  }

  int threads_;
  int64_t bytes_;
  igemm::RowMap from_, to_;               // of the planes
  int64_t planes_ = 1, rows_ = 1, columns_ = 1;
  int64_t from_row_ = 0, from_column_ = 0, to_row_ = 0, to_column_ = 0;
};

}  // namespace

bool reorder_handles(const Node& node) { return node.is("Reorder", smelt_domain); }

void reorder_offer(const BoundNode& b, const Machine& machine, Offer& offer) {
  const BoundTensor& from = b.inputs[0];
  const BoundTensor& to = b.outputs[0];
  offer.problem = fmt::format("reorder:{}>{}", print(from), print(to));
  const int64_t size = bits(from.type) % 8 == 0 ? bytes(from.type, 1) : 0;
  if (size != 1 && size != 2 && size != 4 && size != 8) {
    offer.rejected.push_back({"cpu", fmt::format("elements of {}", smelt::name(from.type))});
    return;
  }
  for (const BoundTensor* t : {&from, &to}) {
    if (t->layout != Layout::plain && t->layout != Layout::nhwc) {
      offer.rejected.push_back({"cpu", fmt::format("layout {}", name(t->layout))});
      return;
    }
  }
  constexpr double bytes_per_us = 4e3;
  offer.candidates.push_back({"cpu", "", 1 + 2.0 * static_cast<double>(size * elements(from.shape)) / bytes_per_us / machine.threads,
                              [from, to, threads = machine.threads] { return std::make_unique<ReorderKernel>(from, to, threads); }});
}

}  // namespace smelt::ops
