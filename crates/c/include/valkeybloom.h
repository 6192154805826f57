// Sketches of valkeybloom in your own program: Bloom filters, cuckoo filters, count-min sketches, top-k lists and
// t-digests, without a server. docs/c.md shows how to begin.
//
// Made from crates/c by cbindgen. Do not edit it.
//
// Rules for all functions:
//
// - They return a status: VALKEYBLOOM_STATUS_OK or the reason why they failed. valkeybloom_last_error() has its text. A
//   call that fails leaves the places for its results as they were, but an array of answers may have been written to.
// - Objects are opaque. A function that makes one puts its pointer into its last argument. It is yours, until you pass it
//   to the function of its type whose name ends with _free. Whatever you pass in stays yours, and is not used after the
//   call.
// - Bytes that are returned are in a valkeybloom_buffer or in valkeybloom_items. They are yours, and you free them with
//   the function of that type.
// - An item is any bytes: a pointer and a length. The pointer may be null if the length is 0. If your items are text, pass
//   UTF-8, and if they are numbers, pass their decimal digits: then all languages and servers mean the same item.
// - Options are a text of words of the server's command, with blanks between them, or null: `EXPANSION 4`.
// - An object may be used by several threads at once. A batch is one call: other threads see all of it or nothing. But an
//   object must not be freed while another thread uses it, and a loader is for one thread at a time.
// - Pointers must be null, or valid for what they point to. Null is refused, unless a function says what it means; a place
//   for a bool or a number may be null if you don't want it.


#ifndef VALKEYBLOOM_H
#define VALKEYBLOOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Arrow's C data interface, https://arrow.apache.org/docs/format/CDataInterface.html
struct ArrowSchema;
struct ArrowArray;

// Why a call failed. The numbers stay; there may be further ones.
typedef enum {
  // It did not: the call succeeded.
  VALKEYBLOOM_STATUS_OK = 0,
  // A parameter, an item or a union that a server refuses, too, with the same text.
  VALKEYBLOOM_STATUS_REFUSED = 1,
  // Bytes that are no object, or one of another family.
  VALKEYBLOOM_STATUS_UNDECODABLE = 2,
  // There is not enough memory. Nothing has changed, unless a batch was under way.
  VALKEYBLOOM_STATUS_NO_MEMORY = 3,
  // A batch whose items can't be read: a null, offsets that don't ascend within the data.
  VALKEYBLOOM_STATUS_BAD_BATCH = 4,
  // An array of Arrow whose elements are of a type that no item has.
  VALKEYBLOOM_STATUS_BAD_TYPE = 5,
  // A bug of this library, in this call or in an earlier one on this object. Free the object.
  VALKEYBLOOM_STATUS_BROKEN = 6,
  // A pointer is null or not aligned, where the call needs what it points to.
  VALKEYBLOOM_STATUS_BAD_POINTER = 7,
} valkeybloom_status;

// The families of objects.
typedef enum {
  // A Bloom filter: valkeybloom_bloom.
  VALKEYBLOOM_FAMILY_BLOOM = 1,
  // A cuckoo filter: valkeybloom_cuckoo.
  VALKEYBLOOM_FAMILY_CUCKOO = 2,
  // A count-min sketch: valkeybloom_count_min.
  VALKEYBLOOM_FAMILY_COUNT_MIN = 3,
  // A top-k list: valkeybloom_top_k.
  VALKEYBLOOM_FAMILY_TOP_K = 4,
  // A t-digest: valkeybloom_tdigest.
  VALKEYBLOOM_FAMILY_T_DIGEST = 5,
} valkeybloom_family;

// A Bloom filter: plain, with a window, or with counters. A lookup that finds nothing is certain. One that finds an item
// is wrong at the error rate.
typedef struct valkeybloom_bloom valkeybloom_bloom;

// A Bloom filter that is being loaded from chunks. For one thread at a time.
typedef struct valkeybloom_bloom_loader valkeybloom_bloom_loader;

// A count-min sketch: how often was an item counted? It may say more, but never less.
typedef struct valkeybloom_count_min valkeybloom_count_min;

// A cuckoo filter: it knows which items are in it, and items can be removed.
typedef struct valkeybloom_cuckoo valkeybloom_cuckoo;

// A cuckoo filter that is being loaded from chunks. For one thread at a time.
typedef struct valkeybloom_cuckoo_loader valkeybloom_cuckoo_loader;

// A t-digest: which quantiles do observations have? It is most exact at both ends.
typedef struct valkeybloom_tdigest valkeybloom_tdigest;

// A top-k list: which items are most frequent, and about how frequent?
typedef struct valkeybloom_top_k valkeybloom_top_k;

// Bytes that are returned. They are yours: free them with valkeybloom_buffer_free.
typedef struct {
  // Where they are; null if there are none to free.
  uint8_t *data;
  // How many there are.
  size_t length;
} valkeybloom_buffer;

// Items that are returned, end to end. They are yours: free them with valkeybloom_items_free.
typedef struct {
  // How many there are.
  size_t length;
  // Their bytes.
  uint8_t *data;
  // The number of these bytes.
  size_t data_length;
  // `length + 1` offsets: item `i` is the bytes from `offsets[i]` up to `offsets[i + 1]`.
  int64_t *offsets;
  // The count of each item; null if the call returns none.
  uint64_t *counts;
} valkeybloom_items;

// Many items, in the memory of the caller's: between offsets, or as an array of Arrow. Set what you use, and let the rest
// be null or 0. Nothing is copied, unless items are numbers.
//
// Item `i` is the bytes from `offsets[i]` up to `offsets[i + 1]` in the data.
typedef struct {
  // The number of items between offsets.
  size_t length;
  // The bytes of the items.
  const uint8_t *data;
  // The number of these bytes.
  size_t data_length;
  // `length + 1` offsets, of 32 bits,
  const int32_t *offsets32;
  // or of 64 bits.
  const int64_t *offsets64;
  // Instead of all these, the type of an array: strings, bytes or integers,
  const struct ArrowSchema *schema;
  // and the array. Both stay yours: they are not released.
  const struct ArrowArray *array;
} valkeybloom_batch;

// What a filter is made of, and what is in it.
typedef struct {
  // The number of items that were new.
  uint64_t items;
  // The number of items that fit before the filter grows or is full, those in it included.
  uint64_t capacity;
  // The number of filters that are stacked.
  uint64_t filters;
  // The memory that the filter takes, in bytes.
  uint64_t memory_bytes;
  // The requested error rate.
  double error_rate;
  // How many times larger the next filter of the stack is; 0 for a filter that does not grow.
  uint64_t expansion;
  // The length of a period in milliseconds, and the number of periods; 0 without a window.
  uint64_t window_ms;
  uint64_t periods;
  // Whether it has counters.
  bool is_counting;
  // Whether it has a seed. Those that RedisBloom made have none.
  bool has_seed;
  // The seed, or zeros.
  uint8_t seed[32];
} valkeybloom_bloom_info;

// What a filter is made of, and what is in it.
typedef struct {
  // The number of items.
  uint64_t items;
  // The number of slots for items.
  uint64_t slots;
  // The number of filters that are stacked.
  uint64_t filters;
  // The memory that the filter takes, in bytes.
  uint64_t memory_bytes;
  // The number of slots in a bucket.
  uint64_t bucket_size;
  // How many items are moved, at most, to make room for one.
  uint64_t max_iterations;
  // How many times larger the next filter of the stack is; 0 for a filter that does not grow.
  uint64_t expansion;
} valkeybloom_cuckoo_info;

// What a sketch is made of, and what is in it.
typedef struct {
  // The number of counters in a row.
  uint64_t width;
  // The number of rows.
  uint64_t depth;
  // The bytes of a counter.
  uint64_t cell_size;
  // The sum of all counts.
  uint64_t total;
  // The memory that the sketch takes, in bytes.
  uint64_t memory_bytes;
} valkeybloom_count_min_info;

// What a list is made of, and what is in it.
typedef struct {
  // The most items that the list has.
  uint64_t k;
  // The number of cells in a row.
  uint64_t width;
  // The number of rows.
  uint64_t depth;
  // The probability that a count of 1 is lost to another item.
  double decay;
  // The number of items in the list.
  uint64_t items;
  // The memory that the list takes, in bytes.
  uint64_t memory_bytes;
} valkeybloom_top_k_info;

// What a digest is made of, and what is in it.
typedef struct {
  // The compression.
  uint64_t compression;
  // The number of observations.
  uint64_t observations;
  // The smallest observation; NaN for an empty digest.
  double min;
  // The largest observation; NaN for an empty digest.
  double max;
  // The memory that the digest takes, in bytes.
  uint64_t memory_bytes;
} valkeybloom_tdigest_info;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the text of this thread's last call that failed, in one line; the empty text if none has. It is valid until
// the next call of this thread fails.
const char *valkeybloom_last_error(void);

// Returns the version of the library, "3.0.0". It is valid for ever.
const char *valkeybloom_version(void);

// Frees the bytes of a buffer, and sets it to null. A buffer that is null, and null itself, are left alone.
void valkeybloom_buffer_free(valkeybloom_buffer *buffer);

// Frees items, and sets them to null. Items that are null, and null itself, are left alone.
void valkeybloom_items_free(valkeybloom_items *items);

// Decodes the bytes of an object of any family, as the function of the family whose name ends with _from_bytes does.
// `object` gets a pointer of the family's type, and you free it with the family's function.
valkeybloom_status valkeybloom_decode(const uint8_t *data, size_t length, valkeybloom_family *family, void **object);

// Makes a filter for `capacity` items with an error rate between 0 and 1. Beyond that it grows.
//
// Options are those of BF.RESERVE: EXPANSION n, NONSCALING, WINDOW ms PERIODS n, COUNTING; and AT ms: when a window
// begins, in milliseconds since the epoch, instead of now. `seed` has 32 bytes, or is null for a random one. Filters can
// only be united if their seeds are equal.
valkeybloom_status valkeybloom_bloom_new(uint64_t capacity,
                                         double error_rate,
                                         const char *options,
                                         const uint8_t *seed,
                                         valkeybloom_bloom **filter);

// Frees a filter. Null is left alone.
void valkeybloom_bloom_free(valkeybloom_bloom *filter);

// Adds an item. `is_new` tells whether the filter did not have it.
//
// Options are those of BF.INSERT: AT ms, the time in milliseconds since the epoch instead of now, and TTL ms for filters
// with a window, ID n for those with counters.
valkeybloom_status valkeybloom_bloom_add(valkeybloom_bloom *filter,
                                         const uint8_t *item,
                                         size_t item_length,
                                         const char *options,
                                         bool *is_new);

// Adds the items of a batch in order, with the options of valkeybloom_bloom_add. `new_items` tells how many the filter
// did not have. A full filter that does not grow is VALKEYBLOOM_STATUS_REFUSED: it has the items before the first one
// without room. A batch that can't be read is not added at all.
valkeybloom_status valkeybloom_bloom_add_many(valkeybloom_bloom *filter,
                                              const valkeybloom_batch *batch,
                                              const char *options,
                                              uint64_t *new_items);

// Tells whether the filter claims an item. The only option is AT ms, for filters with a window.
valkeybloom_status valkeybloom_bloom_contains(const valkeybloom_bloom *filter,
                                              const uint8_t *item,
                                              size_t item_length,
                                              const char *options,
                                              bool *found);

// Looks the items of a batch up. `answers` gets a byte for each: 1 if the filter claims it, or 0. The only option is
// AT ms, for filters with a window.
valkeybloom_status valkeybloom_bloom_contains_many(const valkeybloom_bloom *filter,
                                                   const valkeybloom_batch *batch,
                                                   const char *options,
                                                   uint8_t *answers);

// Removes an item once from a filter with counters. `removed` tells whether it did. The only option is ID n: the id with
// which the item was added.
valkeybloom_status valkeybloom_bloom_remove(valkeybloom_bloom *filter,
                                            const uint8_t *item,
                                            size_t item_length,
                                            const char *options,
                                            bool *removed);

// Tells how often, at most, an item is in a filter with counters, up to 15 for each of the filters that are stacked.
valkeybloom_status valkeybloom_bloom_count(const valkeybloom_bloom *filter,
                                           const uint8_t *item,
                                           size_t item_length,
                                           uint64_t *count);

// Makes the union of some filters, at least one: it claims what one of them claims. What BF.MERGE refuses is refused
// here. The only option is AT ms, for filters with a window.
valkeybloom_status valkeybloom_bloom_union(const valkeybloom_bloom *const *filters,
                                           size_t filters_length,
                                           const char *options,
                                           valkeybloom_bloom **filter);

// Removes all items. Seed and parameters stay. The only option is AT ms, for filters with a window.
valkeybloom_status valkeybloom_bloom_clear(valkeybloom_bloom *filter, const char *options);

// Makes a copy of a filter.
valkeybloom_status valkeybloom_bloom_copy(const valkeybloom_bloom *filter, valkeybloom_bloom **copy);

// Tells whether two filters are equal: whether their bytes are.
valkeybloom_status valkeybloom_bloom_equal(const valkeybloom_bloom *filter,
                                           const valkeybloom_bloom *other,
                                           bool *equal);

// Describes a filter. The only option is AT ms, for filters with a window.
valkeybloom_status valkeybloom_bloom_describe(const valkeybloom_bloom *filter,
                                              const char *options,
                                              valkeybloom_bloom_info *info);

// Estimates the rate of false positives at present, from the bits, all of which are read. The only option is AT ms, for
// filters with a window.
valkeybloom_status valkeybloom_bloom_estimated_error_rate(const valkeybloom_bloom *filter,
                                                          const char *options,
                                                          double *rate);

// Encodes a filter as BF.LOAD takes it; as RESTORE takes it if RedisBloom made the filter.
valkeybloom_status valkeybloom_bloom_to_bytes(const valkeybloom_bloom *filter, valkeybloom_buffer *bytes);

// Decodes what valkeybloom_bloom_to_bytes or a server's DUMP returned, or what its AOF has for BF.LOAD.
valkeybloom_status valkeybloom_bloom_from_bytes(const uint8_t *data, size_t length, valkeybloom_bloom **filter);

// Returns the next chunk of a filter, as BF.SCANDUMP does. `cursor` is 0 at first. Each call sets it to the cursor that
// belongs to the chunk, or after the last chunk to 0, with a null buffer. The filter must not change meanwhile.
valkeybloom_status valkeybloom_bloom_next_chunk(const valkeybloom_bloom *filter,
                                                uint64_t *cursor,
                                                valkeybloom_buffer *chunk);

// Makes a loader for the chunks of a filter.
valkeybloom_status valkeybloom_bloom_loader_new(valkeybloom_bloom_loader **loader);

// Frees a loader. Null is left alone.
void valkeybloom_bloom_loader_free(valkeybloom_bloom_loader *loader);

// Loads a chunk with its cursor, in the order of BF.SCANDUMP. Cursor 0, its end, has no effect.
valkeybloom_status valkeybloom_bloom_loader_load(valkeybloom_bloom_loader *loader,
                                                 uint64_t cursor,
                                                 const uint8_t *chunk,
                                                 size_t chunk_length);

// Makes the filter of the chunks that were loaded. Then the loader is empty, whether or not chunks were missing.
valkeybloom_status valkeybloom_bloom_loader_finish(valkeybloom_bloom_loader *loader, valkeybloom_bloom **filter);

// Makes a filter for `capacity` items. Options are those of CF.RESERVE: BUCKETSIZE n, MAXITERATIONS n, EXPANSION n.
valkeybloom_status valkeybloom_cuckoo_new(uint64_t capacity, const char *options, valkeybloom_cuckoo **filter);

// Frees a filter. Null is left alone.
void valkeybloom_cuckoo_free(valkeybloom_cuckoo *filter);

// Adds an item: once more if the filter has it, or only if it does not, `unless_present`. `added` tells whether it did.
valkeybloom_status valkeybloom_cuckoo_add(valkeybloom_cuckoo *filter,
                                          const uint8_t *item,
                                          size_t item_length,
                                          bool unless_present,
                                          bool *added);

// Adds the items of a batch in order, as valkeybloom_cuckoo_add does. `added` tells how many it added. A full filter is
// VALKEYBLOOM_STATUS_REFUSED: it has all items that had room. A batch that can't be read is not added at all.
valkeybloom_status valkeybloom_cuckoo_add_many(valkeybloom_cuckoo *filter,
                                               const valkeybloom_batch *batch,
                                               bool unless_present,
                                               uint64_t *added);

// Tells whether the filter claims an item.
valkeybloom_status valkeybloom_cuckoo_contains(const valkeybloom_cuckoo *filter,
                                               const uint8_t *item,
                                               size_t item_length,
                                               bool *found);

// Looks the items of a batch up. `answers` gets a byte for each: 1 if the filter claims it, or 0.
valkeybloom_status valkeybloom_cuckoo_contains_many(const valkeybloom_cuckoo *filter,
                                                    const valkeybloom_batch *batch,
                                                    uint8_t *answers);

// Removes an item once. `removed` tells whether the filter claimed it. Removing an item that was never added may remove
// another one.
valkeybloom_status valkeybloom_cuckoo_remove(valkeybloom_cuckoo *filter,
                                             const uint8_t *item,
                                             size_t item_length,
                                             bool *removed);

// Tells how often an item is in the filter, as far as fingerprints show.
valkeybloom_status valkeybloom_cuckoo_count(const valkeybloom_cuckoo *filter,
                                            const uint8_t *item,
                                            size_t item_length,
                                            uint64_t *count);

// Moves items of newer filters of the stack into older ones, and frees those that become empty, as CF.COMPACT does.
valkeybloom_status valkeybloom_cuckoo_compact(valkeybloom_cuckoo *filter);

// Removes all items. The parameters stay.
valkeybloom_status valkeybloom_cuckoo_clear(valkeybloom_cuckoo *filter);

// Makes a copy of a filter.
valkeybloom_status valkeybloom_cuckoo_copy(const valkeybloom_cuckoo *filter, valkeybloom_cuckoo **copy);

// Tells whether two filters are equal: whether their bytes are.
valkeybloom_status valkeybloom_cuckoo_equal(const valkeybloom_cuckoo *filter,
                                            const valkeybloom_cuckoo *other,
                                            bool *equal);

// Describes a filter.
valkeybloom_status valkeybloom_cuckoo_describe(const valkeybloom_cuckoo *filter, valkeybloom_cuckoo_info *info);

// Encodes a filter as RESTORE takes it.
valkeybloom_status valkeybloom_cuckoo_to_bytes(const valkeybloom_cuckoo *filter, valkeybloom_buffer *bytes);

// Decodes what valkeybloom_cuckoo_to_bytes or a server's DUMP returned.
valkeybloom_status valkeybloom_cuckoo_from_bytes(const uint8_t *data, size_t length, valkeybloom_cuckoo **filter);

// Returns the next chunk of a filter, as CF.SCANDUMP does. `cursor` is 0 at first. Each call sets it to the cursor that
// belongs to the chunk, or after the last chunk to 0, with a null buffer. The filter must not change meanwhile.
valkeybloom_status valkeybloom_cuckoo_next_chunk(const valkeybloom_cuckoo *filter,
                                                 uint64_t *cursor,
                                                 valkeybloom_buffer *chunk);

// Makes a loader for the chunks of a filter.
valkeybloom_status valkeybloom_cuckoo_loader_new(valkeybloom_cuckoo_loader **loader);

// Frees a loader. Null is left alone.
void valkeybloom_cuckoo_loader_free(valkeybloom_cuckoo_loader *loader);

// Loads a chunk with its cursor, in the order of CF.SCANDUMP. Cursor 0, its end, has no effect.
valkeybloom_status valkeybloom_cuckoo_loader_load(valkeybloom_cuckoo_loader *loader,
                                                  uint64_t cursor,
                                                  const uint8_t *chunk,
                                                  size_t chunk_length);

// Makes the filter of the chunks that were loaded. Then the loader is empty, whether or not chunks were missing.
valkeybloom_status valkeybloom_cuckoo_loader_finish(valkeybloom_cuckoo_loader *loader, valkeybloom_cuckoo **filter);

// Makes a sketch with `depth` rows of `width` counters. The only option is CELL_SIZE n, the bytes of a counter, as in
// CMS.INITBYDIM.
valkeybloom_status valkeybloom_count_min_new(uint64_t width,
                                             uint64_t depth,
                                             const char *options,
                                             valkeybloom_count_min **sketch);

// Makes a sketch whose counts are too high by more than the share `error` of all counts with `probability`, as
// CMS.INITBYPROB does. The only option is CELL_SIZE n.
valkeybloom_status valkeybloom_count_min_from_rates(double error,
                                                    double probability,
                                                    const char *options,
                                                    valkeybloom_count_min **sketch);

// Frees a sketch. Null is left alone.
void valkeybloom_count_min_free(valkeybloom_count_min *sketch);

// Adds `by`, which may be negative, to the count of an item. `count` gets the new count.
valkeybloom_status valkeybloom_count_min_add(valkeybloom_count_min *sketch,
                                             const uint8_t *item,
                                             size_t item_length,
                                             int64_t by,
                                             uint64_t *count);

// Adds to the counts of the items of a batch: to each the number of `by` at its place, or 1 if `by` is null. If one is
// refused, all others are counted. A batch that can't be read is not counted at all.
valkeybloom_status valkeybloom_count_min_add_many(valkeybloom_count_min *sketch,
                                                  const valkeybloom_batch *batch,
                                                  const int64_t *by);

// Tells how often an item was counted, or somewhat more.
valkeybloom_status valkeybloom_count_min_count(const valkeybloom_count_min *sketch,
                                               const uint8_t *item,
                                               size_t item_length,
                                               uint64_t *count);

// Looks the counts of the items of a batch up. `counts` gets one for each.
valkeybloom_status valkeybloom_count_min_count_many(const valkeybloom_count_min *sketch,
                                                    const valkeybloom_batch *batch,
                                                    uint64_t *counts);

// Makes the sum of some sketches, at least one, each times its weight, or times 1 if `weights` is null. What CMS.MERGE refuses is
// refused here.
valkeybloom_status valkeybloom_count_min_merge(const valkeybloom_count_min *const *sketches,
                                               const int64_t *weights,
                                               size_t sketches_length,
                                               valkeybloom_count_min **sketch);

// Sets all counts to 0.
valkeybloom_status valkeybloom_count_min_clear(valkeybloom_count_min *sketch);

// Makes a copy of a sketch.
valkeybloom_status valkeybloom_count_min_copy(const valkeybloom_count_min *sketch, valkeybloom_count_min **copy);

// Tells whether two sketches are equal: whether their bytes are.
valkeybloom_status valkeybloom_count_min_equal(const valkeybloom_count_min *sketch,
                                               const valkeybloom_count_min *other,
                                               bool *equal);

// Describes a sketch.
valkeybloom_status valkeybloom_count_min_describe(const valkeybloom_count_min *sketch,
                                                  valkeybloom_count_min_info *info);

// Encodes a sketch as RESTORE takes it.
valkeybloom_status valkeybloom_count_min_to_bytes(const valkeybloom_count_min *sketch, valkeybloom_buffer *bytes);

// Decodes what valkeybloom_count_min_to_bytes or a server's DUMP returned.
valkeybloom_status valkeybloom_count_min_from_bytes(const uint8_t *data, size_t length, valkeybloom_count_min **sketch);

// Makes a list of the `k` most frequent items, with `depth` rows of `width` cells, as TOPK.RESERVE does: its own defaults
// are 8, 7 and 0.9. `decay` is the probability that a count of 1 is lost to another item.
valkeybloom_status valkeybloom_top_k_new(uint64_t k,
                                         uint64_t width,
                                         uint64_t depth,
                                         double decay,
                                         valkeybloom_top_k **list);

// Frees a list. Null is left alone.
void valkeybloom_top_k_free(valkeybloom_top_k *list);

// Adds an item `by` times. `left` gets the item that left the list for it, or a null buffer; it may be null.
valkeybloom_status valkeybloom_top_k_add(valkeybloom_top_k *list,
                                         const uint8_t *item,
                                         size_t item_length,
                                         int64_t by,
                                         valkeybloom_buffer *left);

// Adds the items of a batch in order: each as often as the number of `by` at its place says, or once if `by` is null.
// `left` gets the items that left the list, in order; it may be null. A batch that can't be read is not added at all.
valkeybloom_status valkeybloom_top_k_add_many(valkeybloom_top_k *list,
                                              const valkeybloom_batch *batch,
                                              const int64_t *by,
                                              valkeybloom_items *left);

// Tells whether an item is in the list.
valkeybloom_status valkeybloom_top_k_contains(const valkeybloom_top_k *list,
                                              const uint8_t *item,
                                              size_t item_length,
                                              bool *found);

// Looks the items of a batch up. `answers` gets a byte for each: 1 if it is in the list, or 0.
valkeybloom_status valkeybloom_top_k_contains_many(const valkeybloom_top_k *list,
                                                   const valkeybloom_batch *batch,
                                                   uint8_t *answers);

// Tells the count of an item, which may be too low.
valkeybloom_status valkeybloom_top_k_count(const valkeybloom_top_k *list,
                                           const uint8_t *item,
                                           size_t item_length,
                                           uint64_t *count);

// Returns the items of the list with their counts, the largest first.
valkeybloom_status valkeybloom_top_k_list(const valkeybloom_top_k *list, valkeybloom_items *ranking);

// Removes all items. The parameters stay.
valkeybloom_status valkeybloom_top_k_clear(valkeybloom_top_k *list);

// Makes a copy of a list.
valkeybloom_status valkeybloom_top_k_copy(const valkeybloom_top_k *list, valkeybloom_top_k **copy);

// Tells whether two lists are equal: whether their bytes are.
valkeybloom_status valkeybloom_top_k_equal(const valkeybloom_top_k *list, const valkeybloom_top_k *other, bool *equal);

// Describes a list.
valkeybloom_status valkeybloom_top_k_describe(const valkeybloom_top_k *list, valkeybloom_top_k_info *info);

// Encodes a list as RESTORE takes it.
valkeybloom_status valkeybloom_top_k_to_bytes(const valkeybloom_top_k *list, valkeybloom_buffer *bytes);

// Decodes what valkeybloom_top_k_to_bytes or a server's DUMP returned.
valkeybloom_status valkeybloom_top_k_from_bytes(const uint8_t *data, size_t length, valkeybloom_top_k **list);

// Makes a digest. The server's own compression is 100. A larger one is more exact, and takes more memory.
valkeybloom_status valkeybloom_tdigest_new(uint64_t compression, valkeybloom_tdigest **digest);

// Frees a digest. Null is left alone.
void valkeybloom_tdigest_free(valkeybloom_tdigest *digest);

// Adds observations. If one is infinite or not a number, none is added.
valkeybloom_status valkeybloom_tdigest_add(valkeybloom_tdigest *digest, const double *values, size_t length);

// Adds the observations of an array of Arrow: doubles, floats or integers. The array stays yours: it is not released.
valkeybloom_status valkeybloom_tdigest_add_array(valkeybloom_tdigest *digest,
                                                 const struct ArrowSchema *schema,
                                                 const struct ArrowArray *array);

// Tells for each share, from 0 to 1, the value below which that share of the observations lies; NaN for an empty digest.
// `values` may be `shares`.
valkeybloom_status valkeybloom_tdigest_quantiles(const valkeybloom_tdigest *digest,
                                                 const double *shares,
                                                 size_t length,
                                                 double *values);

// Tells for each value the share of the observations that are at most this value; NaN for an empty digest. `shares` may
// be `values`.
valkeybloom_status valkeybloom_tdigest_cdf(const valkeybloom_tdigest *digest,
                                           const double *values,
                                           size_t length,
                                           double *shares);

// Tells for each value its rank: the number of observations below it, plus half of those equal to it; -1 if all are
// larger, and -2 for an empty digest.
valkeybloom_status valkeybloom_tdigest_ranks(const valkeybloom_tdigest *digest,
                                             const double *values,
                                             size_t length,
                                             int64_t *ranks);

// As valkeybloom_tdigest_ranks, from the other end.
valkeybloom_status valkeybloom_tdigest_reverse_ranks(const valkeybloom_tdigest *digest,
                                                     const double *values,
                                                     size_t length,
                                                     int64_t *ranks);

// Tells for each rank, counted from 0 at the smallest observation, the value with this rank; infinity past the last one,
// and NaN for an empty digest.
valkeybloom_status valkeybloom_tdigest_by_ranks(const valkeybloom_tdigest *digest,
                                                const uint64_t *ranks,
                                                size_t length,
                                                double *values);

// As valkeybloom_tdigest_by_ranks, counted from the largest observation.
valkeybloom_status valkeybloom_tdigest_by_reverse_ranks(const valkeybloom_tdigest *digest,
                                                        const uint64_t *ranks,
                                                        size_t length,
                                                        double *values);

// Tells the mean of the observations between two quantiles, from 0 to 1; NaN for an empty digest.
valkeybloom_status valkeybloom_tdigest_trimmed_mean(const valkeybloom_tdigest *digest,
                                                    double low,
                                                    double high,
                                                    double *mean);

// Makes a digest of the observations of some digests, at least one, with this compression, or the largest of theirs if it is 0.
valkeybloom_status valkeybloom_tdigest_merge(const valkeybloom_tdigest *const *digests,
                                             size_t digests_length,
                                             uint64_t compression,
                                             valkeybloom_tdigest **digest);

// Removes all observations. The compression stays.
valkeybloom_status valkeybloom_tdigest_clear(valkeybloom_tdigest *digest);

// Makes a copy of a digest.
valkeybloom_status valkeybloom_tdigest_copy(const valkeybloom_tdigest *digest, valkeybloom_tdigest **copy);

// Tells whether two digests are equal: whether their bytes are.
valkeybloom_status valkeybloom_tdigest_equal(const valkeybloom_tdigest *digest,
                                             const valkeybloom_tdigest *other,
                                             bool *equal);

// Describes a digest.
valkeybloom_status valkeybloom_tdigest_describe(const valkeybloom_tdigest *digest, valkeybloom_tdigest_info *info);

// Encodes a digest as RESTORE takes it.
valkeybloom_status valkeybloom_tdigest_to_bytes(const valkeybloom_tdigest *digest, valkeybloom_buffer *bytes);

// Decodes what valkeybloom_tdigest_to_bytes or a server's DUMP returned.
valkeybloom_status valkeybloom_tdigest_from_bytes(const uint8_t *data, size_t length, valkeybloom_tdigest **digest);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* VALKEYBLOOM_H */
