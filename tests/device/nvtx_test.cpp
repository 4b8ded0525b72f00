// Ranges for profilers, heard by a tool of the test's own.
#include "device/cuda/nvtx.h"

#include <gmock/gmock.h>

#include "support/heard_ranges.h"

namespace smelt::device::cuda {
namespace {

using test::heard;
using test::listening;
using ::testing::ElementsAre;

TEST(NamedRange, is_heard_by_a_tool_from_when_it_listens) {
  { const NamedRange unheard("conv_0"); }
  EXPECT_FALSE(listen_to_ranges([](abi::NvtxTables) { return 0; }));
  EXPECT_FALSE(listen_to_ranges([](abi::NvtxTables) { return 1; }));  // wants to, and gives no functions
  {
    const NamedRange begun_before("conv_1");
    EXPECT_TRUE(listen_to_ranges(listening));
    const NamedRange outer("layer");
    const NamedRange inner("conv_2");
  }
  { const NamedRange last("conv_3"); }
  EXPECT_THAT(heard, ElementsAre("domain smelt", "push layer", "push conv_2", "pop", "pop", "push conv_3", "pop"));
}

TEST(NamedRange, gives_tools_every_module_of_nvtx) {
  EXPECT_TRUE(listen_to_ranges([](abi::NvtxTables tables) {
    const auto* callbacks = static_cast<const abi::NvtxCallbacks*>(tables(abi::nvtx_table_callbacks));
    for (int m = 0; m < 9; ++m) {
      abi::NvtxFunction** functions = nullptr;
      unsigned count = 0;
      EXPECT_EQ(callbacks->table(static_cast<abi::NvtxModule>(m), &functions, &count), m >= 1 && m <= 6) << m;
      if (!functions) continue;
      EXPECT_EQ(functions[0], nullptr);
      for (unsigned i = 1; i < count; ++i) EXPECT_NE(functions[i], nullptr) << m << ' ' << i;
      EXPECT_EQ(functions[count], nullptr);
    }
    EXPECT_EQ(static_cast<const abi::NvtxVersion*>(tables(abi::nvtx_table_version))->version, 3u);
    return listening(tables);
  }));
}

}  // namespace
}  // namespace smelt::device::cuda
