// cuDNN's plans kept on disk: what an engine compiled is there for the next graph of the kind, whatever happens to the file.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"
#include "device/cuda/cudnn_graph.h"
#include "device/cuda/driver.h"
#include "smelt/error.h"

namespace smelt::device::cuda {
namespace {

namespace fs = std::filesystem;

class GpuPlans : public testing::Test {
 protected:
  static constexpr int64_t channels = 64, filters = 128, side = 14;

  GpuPlans() : folder_(fs::path(testing::TempDir()) / ("smelt_plans_" + std::to_string(::getpid()))) {}
  ~GpuPlans() override { fs::remove_all(folder_); }
  void SetUp() override {
    if (!cudnn_missing().empty()) GTEST_SKIP() << cudnn_missing();
    device_ = Device::open(0);
    context_ = DnnContext::open(device_);
  }

  /// relu(conv(x, w) + bias + residual), which engines compile for.
  DnnGraph graph() const {
    DnnGraph g(context_);
    const Shape image{1, channels, side, side}, result{1, filters, side, side}, zero{0, 0}, one{1, 1};
    const auto dense = [](const Shape& s) { return Shape{s[1] * s[2] * s[3], 1, s[1] * s[3], s[1]}; };
    const Shape weights{filters, channels, 1, 1}, bias{1, filters, 1, 1};
    const size_t x = g.tensor(DType::f16, image, dense(image), 16), w = g.tensor(DType::f16, weights, dense(weights), 16);
    const size_t b = g.tensor(DType::f16, bias, dense(bias), 16), r = g.tensor(DType::f16, result, dense(result), 16);
    const size_t y = g.tensor(DType::f16, result, dense(result), 16);
    const size_t sums = g.between(abi::dnn_f32, result, dense(result)), biased = g.between(abi::dnn_f32, result, dense(result));
    const size_t added = g.between(abi::dnn_f32, result, dense(result));
    g.convolve(x, w, sums, DType::f32, one, one, zero, zero);
    g.pointwise({abi::dnn_add}, {sums, b}, biased);
    g.pointwise({abi::dnn_add}, {biased, r}, added);
    g.pointwise({abi::dnn_relu}, {added}, y);
    return g;
  }

  /// y of the first engine, of inputs that are always the same.
  std::vector<uint16_t> result(const KeptFiles& kept) const {
    DnnGraph g = graph();
    const auto plan = g.plan(g.engines({}, kept).at(0), kept);
    const Device::Current current(*device_);
    const Stream stream(device_);
    std::vector<std::shared_ptr<Memory>> memory;
    std::vector<const void*> pointers;
    const int64_t sizes[] = {channels * side * side, filters * channels, filters, filters * side * side, filters * side * side};
    for (const int64_t size : sizes) {
      std::vector<uint16_t> values;  // of f16 between 0.5 and 1, and minus that
      for (int64_t i = 0; i < size; ++i)
        values.push_back(static_cast<uint16_t>(0x3800 | (i * 37 % 1024) | (i * 11 % 3 == 0 ? 0x8000 : 0)));
      memory.push_back(device_->allocate(size * 2, "a test"));
      pointers.push_back(reinterpret_cast<const void*>(memory.back()->address()));
      check(driver().copy_to_device(memory.back()->address(), values.data(), values.size() * 2, stream.get()), "uploading");
      stream.synchronize();
    }
    const auto workspace = device_->allocate(std::max<int64_t>(plan->workspace(), 1), "a test");
    plan->run(pointers, reinterpret_cast<void*>(workspace->address()), stream.get());
    std::vector<uint16_t> y(static_cast<size_t>(sizes[4]));
    check(driver().copy_to_host(y.data(), memory.back()->address(), y.size() * 2, stream.get()), "downloading");
    stream.synchronize();
    return y;
  }

  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::recursive_directory_iterator(folder_))
      if (entry.is_regular_file()) found.push_back(entry.path());
    return found;
  }
  /// The plan's; that of the engines is small.
  fs::path plan_file() const {
    const std::vector<fs::path> all = files();
    return *std::ranges::max_element(all, {}, [](const fs::path& f) { return fs::file_size(f); });
  }

  fs::path folder_;
  std::shared_ptr<Device> device_;
  std::shared_ptr<DnnContext> context_;
};

TEST_F(GpuPlans, read_from_disk_give_the_same_bits) {
  const auto kept = dnn_plan_files(folder_);
  const auto made = result(*dnn_plan_files({}));
  EXPECT_EQ(result(*kept), made);
  const fs::path file = plan_file();
  const auto written = fs::last_write_time(file);
  EXPECT_EQ(result(*kept), made);
  EXPECT_EQ(fs::last_write_time(file), written);
}

TEST_F(GpuPlans, that_cannot_be_read_are_made_again) {
  const auto kept = dnn_plan_files(folder_);
  const auto made = result(*kept);
  const std::string text = read_text(plan_file());
  const std::string key = plan_file().stem();
  kept->write(key, "{}");
  EXPECT_EQ(result(*kept), made);
  EXPECT_EQ(read_text(plan_file()).size(), text.size());
  testing::internal::CaptureStderr();
  write_text(plan_file(), text.substr(0, text.size() / 2));
  EXPECT_EQ(result(*kept), made);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("is damaged"));
  EXPECT_EQ(read_text(plan_file()).size(), text.size());
}

TEST_F(GpuPlans, have_the_engines_that_the_library_named) {
  const auto kept = dnn_plan_files(folder_);
  const auto asked = graph().engines({}, *kept), read = graph().engines({}, *kept);
  ASSERT_FALSE(asked.empty());
  ASSERT_EQ(read.size(), asked.size());
  for (size_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(read[i].name, asked[i].name);
    EXPECT_EQ(read[i].number, asked[i].number);
    EXPECT_EQ(read[i].settings, asked[i].settings);
    EXPECT_EQ(read[i].config, nullptr);
  }
  DnnGraph g = graph();  // a plan that nobody has made yet
  EXPECT_NE(g.plan(g.engines({}, *kept)[0], *kept), nullptr);
}

TEST_F(GpuPlans, only_of_engines_whose_results_are_always_the_same_unless_others_are_asked_for) {
  const auto kept = dnn_plan_files(folder_);
  const auto same = graph().engines({}, *kept), all = graph().engines({.deterministic = false}, *kept);
  EXPECT_EQ(files().size(), 2u);  // lists of their own
  EXPECT_GE(all.size(), same.size());
  for (const DnnGraph::Engine& e : all) {
    const bool among = std::ranges::find(same, e.name, &DnnGraph::Engine::name) != same.end();
    EXPECT_NE(among, e.name.ends_with(" nondeterministic")) << e.name;
  }
}

TEST_F(GpuPlans, of_another_graph_have_files_of_their_own) {
  const auto kept = dnn_plan_files(folder_);
  result(*kept);
  EXPECT_EQ(files().size(), 2u);
  DnnGraph g(context_);
  const Shape image{1, channels, side, side}, dense{channels * side * side, 1, side * channels, channels};
  const size_t x = g.tensor(DType::f16, image, dense, 16), y = g.tensor(DType::f32, image, dense, 16);
  g.pointwise({abi::dnn_mul}, {x, g.scalar(0.5f, 4)}, y);
  EXPECT_NE(g.plan(g.engines({}, *kept).at(0), *kept), nullptr);
  EXPECT_EQ(files().size(), 4u);
}

}  // namespace
}  // namespace smelt::device::cuda
