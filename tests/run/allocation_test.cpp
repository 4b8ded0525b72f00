// run allocates nothing: every allocation in this program goes through the functions below, which count while asked to.
#include <atomic>
#include <cstdlib>

#include "graphs.h"

namespace {

std::atomic<bool> counting = false;
std::atomic<int64_t> allocations = 0;

void count() {
  if (counting.load(std::memory_order_relaxed)) allocations.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

// glibc's own names for what these replace; operator new ends in malloc.
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

void* malloc(size_t n) { return count(), __libc_malloc(n); }
void* calloc(size_t n, size_t m) { return count(), __libc_calloc(n, m); }
void* realloc(void* p, size_t n) { return count(), __libc_realloc(p, n); }
void* aligned_alloc(size_t a, size_t n) { return count(), __libc_memalign(a, n); }
void* memalign(size_t a, size_t n) { return count(), __libc_memalign(a, n); }
int posix_memalign(void** p, size_t a, size_t n) {
  count();
  *p = __libc_memalign(a, n);
  return *p ? 0 : 12;   // ENOMEM
}
}

namespace smelt::run {
namespace {

int64_t allocations_of(Execution& execution) {
  execution.run();   // starts the thread pool, and lets views of the arena be made
  allocations = 0;
  counting = true;
  execution.run();
  counting = false;
  return allocations;
}

TEST(Allocation, the_counter_counts) {
  allocations = 0;
  counting = true;
  auto* p = new std::vector<int>(1000);
  counting = false;
  delete p;
  EXPECT_EQ(allocations, 2);
}

TEST(Allocation, a_run_of_views_copies_and_concatenations_allocates_nothing) {
  Builder b;
  const ValueId x = b.input("x", to_sym({2, 8, 16}));
  const ValueId c = b.node("c", "Concat", {x, b.weights("w", {2, 8, 16})}, to_sym({2, 16, 16}), DType::f32, {{"axis", int64_t{1}}});
  const ValueId r = b.node("r", "Reshape", {c, b.ints({32, 16})}, to_sym({32, 16}));
  b.output(r);
  b.output(b.node("i", "Identity", {c}, to_sym({2, 16, 16})));
  const auto execution = Plan::build(std::move(b.g), quick())->execution();
  execution->bind(std::vector{random_tensor({2, 8, 16}, 1)});
  EXPECT_EQ(execution->steps().size(), 2u);
  EXPECT_EQ(allocations_of(*execution), 0);
}

}  // namespace
}  // namespace smelt::run
