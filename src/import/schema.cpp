#include "import/schema.h"

#include <onnx/defs/operator_sets.h>
#include <onnx/defs/operator_sets_ml.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include "import/stages.h"

namespace smelt::importer {
namespace {

namespace domains {
constexpr std::string_view Onnx = onnx::ONNX_DOMAIN, OnnxML = onnx::AI_ONNX_ML_DOMAIN;
}  // namespace domains

struct Row {
  std::string_view op;
  int since;
  std::string_view domain;
  onnx::OpSchema (*make)();
};

/// Sorted by operator (cmake/Onnx.cmake).
constexpr Row rows[] = {
#define SMELT_SCHEMA(op, since, domain) \
  {#op, since, domains::domain, &onnx::GetOpSchema<onnx::ONNX_OPERATOR_SET_SCHEMA_CLASS_NAME(domain, since, op)>},
#include "onnx_schemas.def"
#undef SMELT_SCHEMA
};
static_assert(std::ranges::is_sorted(rows, {}, &Row::op));

const Row* newest(const std::string& op, int version, const std::string& domain) {
  const Row* found = nullptr;
  for (const Row* r = std::ranges::lower_bound(rows, std::string_view(op), {}, &Row::op); r != std::end(rows) && r->op == op; ++r)
    if (r->domain == domain && r->since <= version && (!found || r->since > found->since)) found = r;
  return found;
}

/// The rows' schemas.
class Schemas final : public onnx::ISchemaRegistry {
 public:
  const onnx::OpSchema* GetSchema(const std::string& op, int version, const std::string& domain) const override {
    if (domain == onnx::AI_ONNX_PREVIEW_DOMAIN || domain == onnx::AI_ONNX_PREVIEW_TRAINING_DOMAIN ||
        domain == onnx::AI_ONNX_TRAINING_DOMAIN)
      return onnx::OpSchemaRegistry::Schema(op, version, domain);  // rare
    if (const Row* row = newest(op, version, domain)) return made(row, row->make);
    const MicrosoftOperator* other = version >= 1 ? find_microsoft_operator(op, domain) : nullptr;
    return other ? made(other, [&] { return microsoft_schema(*other); }) : nullptr;
  }

 private:
  template <class F> const onnx::OpSchema* made(const void* row, F&& make) const {
    const std::lock_guard lock(mutex_);
    auto& schema = made_[row];
    if (!schema) {
      auto fresh = std::make_unique<onnx::OpSchema>(make());
      fresh->Finalize();
      schema = std::move(fresh);
    }
    return schema.get();
  }

  mutable std::mutex mutex_;
  mutable std::unordered_map<const void*, std::unique_ptr<const onnx::OpSchema>> made_;
};

}  // namespace

const onnx::ISchemaRegistry& schemas() {
  static const Schemas all;
  return all;
}

const onnx::OpSchema* find_schema(const std::string& op, int version, const std::string& domain) {
  return schemas().GetSchema(op, version, domain);
}

const onnx::OpSchema* find_schema(const std::string& op, const std::string& domain) {
  return find_schema(op, std::numeric_limits<int>::max(), domain);
}

}  // namespace smelt::importer
