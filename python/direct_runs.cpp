#include "direct_runs.h"

#include <algorithm>

#include "gil.h"
#include "text.h"

namespace nb = nanobind;

namespace smelt::python {
DirectRuns::DirectRuns(Session& session)
    : session_(session), has_arrays_(std::ranges::all_of(session.outputs(), NumpyArrays::has, &TensorInfo::type)) {
  for (const TensorInfo& i : session.inputs()) inputs_.push_back({nb::cast(i.name), i.type});
}

std::optional<std::vector<Tensor>> DirectRuns::inputs_of(nb::handle feeds) const {
  if (!PyDict_CheckExact(feeds.ptr()) || PyDict_Size(feeds.ptr()) != static_cast<Py_ssize_t>(inputs_.size())) return std::nullopt;
  std::vector<Tensor> tensors;
  tensors.reserve(inputs_.size());
  for (const Input& i : inputs_) {
    PyObject* value = PyDict_GetItemWithError(feeds.ptr(), i.name.ptr());
    PyErr_Clear();
    std::optional<Tensor> t = value ? arrays_.tensor_of(value, i.type) : std::nullopt;
    if (!t) return std::nullopt;
    tensors.push_back(*std::move(t));
  }
  return tensors;
}

std::optional<std::vector<size_t>> DirectRuns::outputs_of(nb::handle names) const {
  const std::vector<TensorInfo>& all = session_.outputs();
  std::vector<size_t> wanted;
  if (!names.is_none() && !PyList_CheckExact(names.ptr())) return std::nullopt;
  const Py_ssize_t n = names.is_none() ? 0 : PyList_GET_SIZE(names.ptr());
  for (size_t i = 0; n == 0 && i < all.size(); ++i) wanted.push_back(i);
  for (Py_ssize_t i = 0; i < n; ++i) {
    std::string name;
    if (!nb::try_cast(nb::handle(PyList_GET_ITEM(names.ptr(), i)), name)) return std::nullopt;
    const auto at = std::ranges::find(all, name, &TensorInfo::name);
    if (at == all.end()) return std::nullopt;
    wanted.push_back(static_cast<size_t>(at - all.begin()));
  }
  return wanted;
}

nb::object DirectRuns::run(nb::handle feeds, nb::handle names) const {
  if (!has_arrays_) return nb::none();
  const auto wanted = outputs_of(names);
  if (!wanted) return nb::none();
  auto tensors = inputs_of(feeds);
  if (!tensors) return nb::none();
  std::vector<Tensor> results;
  {
    const Unlocked unlocked;
    results = session_.run_in_order(*tensors);
  }
  nb::list arrays;
  for (const size_t i : *wanted) arrays.append(arrays_.array_of(results[i]));
  return arrays;
}

}  // namespace smelt::python
