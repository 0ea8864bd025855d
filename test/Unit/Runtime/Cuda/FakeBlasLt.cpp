//===- FakeBlasLt.cpp - Fake cuBLASLt without a GPU -----------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeState.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace kiln::runtime::fakecuda;

namespace {

struct Handle {};

struct Desc {
  int compute, scale;
  int32_t trans[2] = {0, 0};
  uint32_t epilogue = 1; ///< A cublasLtEpilogue_t; 1: no epilogue.
  uint64_t bias = 0, aux = 0;
  int64_t auxLd = 0;
};

/// The operations that a cublasLtEpilogue_t selects.
struct Epilogue {
  bool known, readsBias, gelu, writesAux, geluGrad, sumsA, sumsB;

  explicit Epilogue(uint32_t n)
      : known(n == 1 || n == 4 || n == 36 || n == 164 || n == 192 || n == 256 ||
              n == 512),
        readsBias(n == 4 || n == 36 || n == 164), gelu(n == 36 || n == 164),
        writesAux(n == 164), geluGrad(n == 192), sumsA(n == 256),
        sumsB(n == 512) {}
  bool hasBias() const { return readsBias || sumsA || sumsB; }
  bool hasAux() const { return writesAux || geluGrad; }
};

struct Layout {
  int type;
  int64_t rows, columns, ld;
  int32_t batch = 1;
  int64_t stride = 0;
};

struct Preference {
  uint64_t workspace = 0;
  uint32_t reductions = 7;
  uint32_t alignments[4] = {256, 256, 256, 256};
};

struct Algorithm {
  uint64_t words[8];
};

struct Proposal {
  Algorithm algorithm;
  std::size_t workspace;
  int status;
  float waves;
  int reserved[4];
};

constexpr uint64_t cookie = 0x6b696c6e;

} // namespace

// cudaDataType_t.
static constexpr int f32 = 0, f64 = 1, bf16 = 14;

static int64_t bytesOf(int type) {
  return type == f64 ? 8 : type == bf16 ? 2 : 4;
}

template <typename T> static T element(const char *data, int64_t index) {
  T value;
  std::memcpy(&value, data + index * int64_t(sizeof(T)), sizeof(T));
  return value;
}

static double at(int type, const char *data, int64_t index) {
  if (type == f64)
    return element<double>(data, index);
  if (type == f32)
    return double(element<float>(data, index));
  uint32_t bits = uint32_t(element<uint16_t>(data, index)) << 16;
  return double(element<float>(reinterpret_cast<const char *>(&bits), 0));
}

static void put(int type, char *data, int64_t index, double value) {
  auto single = float(value);
  auto bits = element<uint32_t>(reinterpret_cast<const char *>(&single), 0);
  auto narrow = uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  const void *from = &value;
  if (type == f32)
    from = &single;
  else if (type == bf16)
    from = &narrow;
  std::memcpy(data + index * bytesOf(type), from, std::size_t(bytesOf(type)));
}

static double gelu(double x) {
  return 0.5 * x *
         (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

/// Returns the derivative of gelu by a finite difference, which is independent
/// of kiln's formula.
static double geluGradient(double x) {
  return (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5;
}

namespace {

struct Results {
  std::vector<double> c, aux, bias;
};

} // namespace

/// Computes a column-major matmul as cuBLASLt's documentation defines it.
static Results naive(const Product &p) {
  Results result;
  Epilogue epilogue(p.epilogue);
  for (int64_t j = 0; j < p.n; ++j)
    for (int64_t i = 0; i < p.m; ++i) {
      double sum =
          p.beta == 0 ? 0 : p.beta * at(p.resultType, p.c, i + j * p.ldc);
      for (int64_t l = 0; l < p.k; ++l)
        sum += at(p.type, p.a, p.transA ? l + i * p.lda : i + l * p.lda) *
               at(p.type, p.b, p.transB ? j + l * p.ldb : l + j * p.ldb);
      // The bias has one element per row of the column-major result.
      if (epilogue.readsBias)
        sum += at(p.resultType, p.bias, i);
      result.aux.push_back(sum);
      if (epilogue.gelu)
        sum = gelu(sum);
      if (epilogue.geluGrad)
        sum *= geluGradient(at(p.resultType, p.aux, i + j * p.auxLd));
      result.c.push_back(sum);
    }
  for (int64_t i = 0; i < (epilogue.sumsA ? p.m : 0); ++i) {
    result.bias.push_back(0);
    for (int64_t l = 0; l < p.k; ++l)
      result.bias.back() +=
          at(p.type, p.a, p.transA ? l + i * p.lda : i + l * p.lda);
  }
  for (int64_t j = 0; j < (epilogue.sumsB ? p.n : 0); ++j) {
    result.bias.push_back(0);
    for (int64_t l = 0; l < p.k; ++l)
      result.bias.back() +=
          at(p.type, p.b, p.transB ? j + l * p.ldb : l + j * p.ldb);
  }
  return result;
}

static int compute(const Product &p) {
  Results expected = naive(p);
  if (state().settings.product)
    state().settings.product(p);
  // Write the expected result or, if Settings::product has computed the matmul,
  // compare the computed result with the expected result.
  bool isWrong = false;
  double tolerance = p.resultType == bf16 ? 1e-2 : 1e-4;
  auto finish = [&](char *to, int64_t index, double value) {
    // Do not compare results that are NaN or infinite: algorithms may be
    // measured on arbitrary operands, which may contain NaN.
    bool isNumber = std::isfinite(value);
    if (!state().settings.product)
      put(p.resultType, to, index, value);
    else
      isWrong |= isNumber && !(std::abs(at(p.resultType, to, index) - value) <=
                               tolerance * (1 + std::abs(value)));
  };
  for (int64_t j = 0; j < p.n; ++j)
    for (int64_t i = 0; i < p.m; ++i) {
      finish(p.c, i + j * p.ldc, expected.c[std::size_t(i + j * p.m)]);
      if (Epilogue(p.epilogue).writesAux)
        finish(p.aux, i + j * p.auxLd, expected.aux[std::size_t(i + j * p.m)]);
    }
  for (std::size_t i = 0; i < expected.bias.size(); ++i)
    finish(p.bias, int64_t(i), expected.bias[i]);
  return isWrong ? violate("wrong result of a matmul") : 0;
}

#define BEGIN(...)                                                             \
  Call call(__func__, ##__VA_ARGS__);                                          \
  if (call.code() != 0)                                                        \
  return call.code() == 999 ? 14 : call.code()

template <typename T>
static int take(T *to, const void *from, std::size_t bytes) {
  if (bytes != sizeof(T))
    return violate("wrong size of an attribute");
  std::memcpy(to, from, bytes);
  return 0;
}

extern "C" {

const char *cublasLtGetStatusName(int status) {
  return status == 14 ? "CUBLAS_STATUS_INTERNAL_ERROR" : nullptr;
}
const char *cublasLtGetStatusString(int) { return nullptr; }
std::size_t cublasLtGetVersion() { return 130102; }

int cublasLtCreate(void **handle) {
  BEGIN();
  *handle = create("library", new Handle);
  return 0;
}

int cublasLtDestroy(void *handle) {
  Call call(__func__);
  return destroy("library", static_cast<Handle *>(handle)) ? call.code() : 7;
}

int cublasLtMatmulDescCreate(void **desc, int computeType, int scale) {
  BEGIN();
  *desc = create("product", new Desc{computeType, scale});
  return 0;
}

int cublasLtMatmulDescDestroy(void *desc) {
  Call call(__func__);
  return destroy("product", static_cast<Desc *>(desc)) ? call.code() : 7;
}

int cublasLtMatmulDescSetAttribute(void *desc, int attribute, const void *value,
                                   std::size_t bytes) {
  BEGIN();
  if (!exists("product", desc))
    return 7;
  auto *product = static_cast<Desc *>(desc);
  if (attribute == 3 || attribute == 4)
    return take(&product->trans[attribute - 3], value, bytes);
  if (attribute == 7)
    return take(&product->epilogue, value, bytes);
  if (attribute == 8)
    return take(&product->bias, value, bytes);
  if (attribute == 11)
    return take(&product->aux, value, bytes);
  if (attribute == 12)
    return take(&product->auxLd, value, bytes);
  return violate("unknown matmul attribute");
}

int cublasLtMatrixLayoutCreate(void **layout, int type, uint64_t rows,
                               uint64_t columns, int64_t ld) {
  BEGIN();
  if (ld < int64_t(rows))
    return violate("the leading dimension is smaller than a column");
  *layout =
      create("layout", new Layout{type, int64_t(rows), int64_t(columns), ld});
  return 0;
}

int cublasLtMatrixLayoutDestroy(void *layout) {
  Call call(__func__);
  return destroy("layout", static_cast<Layout *>(layout)) ? call.code() : 7;
}

int cublasLtMatrixLayoutSetAttribute(void *handle, int attribute,
                                     const void *value, std::size_t bytes) {
  BEGIN();
  if (!exists("layout", handle))
    return 7;
  auto *layout = static_cast<Layout *>(handle);
  if (attribute == 5)
    return take(&layout->batch, value, bytes);
  if (attribute == 6)
    return take(&layout->stride, value, bytes);
  return violate("unknown layout attribute");
}

int cublasLtMatmulPreferenceCreate(void **preference) {
  BEGIN();
  *preference = create("preference", new Preference);
  return 0;
}

int cublasLtMatmulPreferenceDestroy(void *preference) {
  Call call(__func__);
  return destroy("preference", static_cast<Preference *>(preference))
             ? call.code()
             : 7;
}

int cublasLtMatmulPreferenceSetAttribute(void *handle, int attribute,
                                         const void *value, std::size_t bytes) {
  BEGIN();
  if (!exists("preference", handle))
    return 7;
  auto *preference = static_cast<Preference *>(handle);
  if (attribute == 1)
    return take(&preference->workspace, value, bytes);
  if (attribute == 3)
    return take(&preference->reductions, value, bytes);
  if (attribute >= 5 && attribute <= 8)
    return take(&preference->alignments[attribute - 5], value, bytes);
  return violate("unknown preference");
}

int cublasLtMatmulAlgoGetHeuristic(void *library, void *desc, void *a, void *b,
                                   void *c, void *d, void *preference,
                                   int wanted, Proposal *proposals,
                                   int *found) {
  BEGIN();
  if (!exists("library", library) || !exists("product", desc) ||
      !exists("layout", a) || !exists("layout", b) || !exists("layout", c) ||
      !exists("layout", d) || !exists("preference", preference) || wanted < 1)
    return 7;
  const auto *wish = static_cast<Preference *>(preference);
  if (wish->reductions != 2)
    return violate(
        "reduction schemes other than that of the compute type are allowed");
  std::size_t known = state().settings.gemmTimes.size();
  *found = int(std::min(std::size_t(wanted), known));
  for (int i = 0; i < *found; ++i) {
    proposals[i] = {};
    uint64_t *words = proposals[i].algorithm.words;
    words[0] = cookie;
    std::copy_n(wish->alignments, 4, words + 1);
    words[5] = wish->workspace;
    words[6] = uint64_t(i);
    // The heuristic needs the addresses of bias and aux to derive their
    // alignments.
    const auto *product = static_cast<Desc *>(desc);
    Epilogue epilogue(product->epilogue);
    if ((epilogue.hasBias() && product->bias == 0) ||
        (epilogue.hasAux() && product->aux == 0))
      return violate("no address of the bias or aux is set before the "
                     "heuristic is queried");
    uint64_t places[] = {product->bias, product->aux};
    for (uint64_t &place : places)
      place = std::min<uint64_t>(place & (~place + 1), 256);
    words[7] = product->epilogue | places[0] << 16 | places[1] << 32;
  }
  return 0;
}

int cublasLtMatmul(void *library, void *descHandle, const void *alpha,
                   uint64_t a, void *aHandle, uint64_t b, void *bHandle,
                   const void *beta, uint64_t c, void *cHandle, uint64_t d,
                   void *dHandle, const Algorithm *algorithm,
                   uint64_t workspace, std::size_t workspaceBytes,
                   void *stream) {
  BEGIN();
  if (!exists("library", library) || !exists("product", descHandle) ||
      !exists("layout", aHandle) || !exists("layout", bHandle) ||
      !exists("layout", cHandle) || cHandle != dHandle || c != d)
    return 7;
  const auto &desc = *static_cast<Desc *>(descHandle);
  const auto &la = *static_cast<Layout *>(aHandle);
  const auto &lb = *static_cast<Layout *>(bHandle);
  const auto &lc = *static_cast<Layout *>(cHandle);
  if (algorithm->words[0] != cookie || algorithm->words[5] != workspaceBytes)
    return violate("the algorithm belongs to another matmul");
  // cuBLASLt may write any bytes to its workspace.
  char *space = nullptr;
  if (workspaceBytes > 0 &&
      !(space = resolve(workspace, int64_t(workspaceBytes))))
    return 7;
  uint64_t places[] = {a, b, c, d};
  for (int i = 0; i < 4; ++i)
    if (places[i] % algorithm->words[i + 1] != 0)
      return violate(
          "the algorithm requires a larger alignment of the matrices");
  Product p;
  p.type = la.type;
  p.resultType = lc.type;
  bool isF64 = p.type == f64;
  if (desc.compute != (isF64 ? 70 : 68) || desc.scale != (isF64 ? f64 : f32) ||
      lb.type != p.type ||
      (p.resultType != p.type && (p.type != bf16 || p.resultType != f32)))
    return violate("inconsistent types of a matmul");
  p.transA = desc.trans[0] == 1;
  p.transB = desc.trans[1] == 1;
  p.m = lc.rows;
  p.n = lc.columns;
  p.k = p.transA ? la.rows : la.columns;
  if ((p.transA ? la.columns : la.rows) != p.m ||
      (p.transB ? lb.rows : lb.columns) != p.n ||
      (p.transB ? lb.columns : lb.rows) != p.k || la.batch != lc.batch ||
      lb.batch != lc.batch)
    return violate("inconsistent shapes of a matmul");
  p.lda = la.ld;
  p.ldb = lb.ld;
  p.ldc = lc.ld;
  double one = isF64 ? *static_cast<const double *>(alpha)
                     : double(*static_cast<const float *>(alpha));
  p.beta = isF64 ? *static_cast<const double *>(beta)
                 : double(*static_cast<const float *>(beta));
  if (one != 1)
    return violate("unsupported scale factors of a matmul");
  auto place = [&](const Layout &layout, uint64_t pointer) {
    return resolve(pointer,
                   bytesOf(layout.type) *
                       ((layout.batch - 1) * layout.stride +
                        (layout.columns - 1) * layout.ld + layout.rows));
  };
  char *first[] = {place(la, a), place(lb, b), place(lc, c)};
  if (!first[0] || !first[1] || !first[2])
    return 7;
  std::vector<Product> products;
  Epilogue epilogue(desc.epilogue);
  if (!epilogue.known)
    return violate("unknown epilogue");
  if (desc.epilogue != (algorithm->words[7] & 0xffff))
    return violate("the algorithm belongs to another epilogue");
  p.epilogue = desc.epilogue;
  p.auxLd = desc.auxLd;
  if (desc.epilogue != 1 && (lc.batch != 1 || isF64 || p.beta != 0))
    return violate("the matmul does not support an epilogue");
  if (epilogue.hasBias()) {
    if (desc.bias % (algorithm->words[7] >> 16 & 0xffff) != 0)
      return violate("the algorithm requires a larger alignment of the bias");
    if (!(p.bias = resolve(desc.bias, bytesOf(p.resultType) *
                                          (epilogue.sumsB ? p.n : p.m))))
      return 7;
  }
  if (epilogue.hasAux()) {
    if (desc.aux % (algorithm->words[7] >> 32) != 0)
      return violate("the algorithm requires a larger alignment of aux");
    // cuBLASLt's documentation requires these conditions.
    if (desc.auxLd % 8 != 0 || desc.auxLd < p.m || desc.aux % 16 != 0)
      return violate("invalid leading dimension or alignment of aux");
    if (!(p.aux = resolve(desc.aux, bytesOf(p.resultType) *
                                        ((p.n - 1) * desc.auxLd + p.m))))
      return 7;
  }
  for (int64_t i = 0; i < lc.batch; ++i) {
    p.a = first[0] + i * la.stride * bytesOf(la.type);
    p.b = first[1] + i * lb.stride * bytesOf(lb.type);
    p.c = first[2] + i * lc.stride * bytesOf(lc.type);
    products.push_back(p);
  }
  std::size_t way = algorithm->words[6];
  ++state().products[way];
  return enqueue(static_cast<StreamObject *>(stream),
                 [products, space, workspaceBytes, way] {
                   state().clock += state().settings.gemmTimes[way];
                   std::fill_n(space, space ? workspaceBytes : 0, '\x7b');
                   for (const Product &product : products)
                     if (int code = compute(product))
                       return code;
                   return 0;
                 });
}

} // extern "C"
