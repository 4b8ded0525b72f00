// Concatenation by rows, of parts of every width, against a loop over bytes.
#include "run/copy.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "base/threads.h"

namespace smelt::run {
namespace {

TEST(Concatenate, puts_parts_of_any_width_side_by_side) {
  for (const std::vector<int64_t>& chunks :
       std::vector<std::vector<int64_t>>{{1, 1}, {2, 1, 3}, {4, 4}, {8, 12, 16}, {5, 1}, {6, 24, 32}, {100, 4}, {1}, {7, 64, 1}})
    for (const int64_t outer : {1, 7, 300, 70000})
      for (const int threads : {1, 3}) {
        plan::ConcatCopy copy;
        copy.outer = outer;
        copy.row = std::accumulate(chunks.begin(), chunks.end(), int64_t{0});
        std::vector<std::vector<uint8_t>> inputs;
        std::vector<const void*> in;
        int64_t offset = 0;
        for (const int64_t chunk : chunks) {
          copy.parts.push_back({inputs.size(), offset, chunk});
          offset += chunk;
          std::vector<uint8_t>& bytes = inputs.emplace_back(static_cast<size_t>(outer * chunk));
          for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 31 + inputs.size() * 7);
        }
        for (const auto& bytes : inputs) in.push_back(bytes.data());
        std::vector<uint8_t> y(static_cast<size_t>(outer * copy.row), 0xee);
        const threads::Scope scope(threads);
        concatenate(y.data(), copy, in);
        for (int64_t r = 0; r < outer; ++r)
          for (const auto& part : copy.parts)
            for (int64_t i = 0; i < part.chunk; ++i)
              ASSERT_EQ(y[static_cast<size_t>(r * copy.row + part.offset + i)],
                        inputs[part.input][static_cast<size_t>(r * part.chunk + i)])
                  << outer << " rows of " << copy.row;
      }
}

}  // namespace
}  // namespace smelt::run
