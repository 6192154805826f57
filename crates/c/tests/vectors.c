// A golden vector of each family, made item by item and in one batch: its bytes are those of the files in tests/vectors,
// which docs/vectors.md describes. The tests in JavaScript carry out every
// case with the same functions.

#include "check.h"

enum { MOST = 700 };

// The items of a case are numbered, and item i counts i + 1 times.
static uint8_t text[MOST * 8];
static int64_t offsets[MOST + 1], by[MOST];

static valkeybloom_batch numbered(char start, int count) {
    for (int i = 0; i < count; i++) {
        offsets[i + 1] = offsets[i] + sprintf((char *)text + offsets[i], "%c%d", start, i);
        by[i] = i + 1;
    }
    return (valkeybloom_batch){
        .length = (size_t)count, .data = text, .data_length = (size_t)offsets[count], .offsets64 = offsets};
}

#define ITEM(i) text + offsets[i], (size_t)(offsets[(i) + 1] - offsets[i])

// Returns the text of a file, for the caller to free.
static char *read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    CHECK(file != NULL && fseek(file, 0, SEEK_END) == 0);
    size_t length = (size_t)ftell(file);
    char *content = malloc(length + 1);
    rewind(file);
    CHECK(content != NULL && fread(content, 1, length, file) == length);
    content[length] = 0;
    fclose(file);
    return content;
}

// Requires that two equal objects have the bytes of a case, and that these make a third.
static void hold(const char *folder, const char *family, const char *name, valkeybloom_object *single,
                 valkeybloom_object *batch) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.json", folder, family);
    at = name;
    char *cases = read_file(path), *start = strstr(cases, name);
    CHECK(start != NULL);
    char *end = strstr(start, "\"dump\": ");
    CHECK(end != NULL);
    *strchr(end, '\n') = 0;
    valkeybloom_object *again = NULL;
    valkeybloom_buffer bytes;
    bool equal = false;
    OK(valkeybloom_to_bytes(single, &bytes));
    char *digits = malloc(2 * bytes.length + 3), *digit = digits;
    CHECK(digits != NULL);
    *digit++ = '"';
    for (size_t i = 0; i < bytes.length; i++) digit += sprintf(digit, "%02x", bytes.data[i]);
    strcpy(digit, "\"");
    CHECK(strstr(start, digits) != NULL);
    OK(valkeybloom_from_bytes(bytes.data, bytes.length, &again));
    OK(valkeybloom_equal(again, batch, &equal));
    CHECK(equal);
    valkeybloom_buffer_free(&bytes);
    free(digits);
    free(cases);
    valkeybloom_free(single);
    valkeybloom_free(batch);
    valkeybloom_free(again);
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    const char *folder = arguments[1];
    valkeybloom_object *pair[2];
    valkeybloom_batch batch = numbered('y', MOST);
    uint8_t seed[32];
    for (int i = 0; i < 32; i++) seed[i] = (uint8_t)(11 + 37 * i);
    for (int i = 0; i < 2; i++) OK(valkeybloom_bloom_new(1000, 0.3, NULL, seed, &pair[i]));
    for (int i = 0; i < MOST; i++) OK(valkeybloom_bloom_add(pair[0], ITEM(i), NULL, NULL));
    OK(valkeybloom_bloom_add_many(pair[1], &batch, NULL, NULL, NULL));
    hold(folder, "bloom", "\"large rate and batches\"", pair[0], pair[1]);

    batch = numbered('x', 7);
    for (int i = 0; i < 2; i++) OK(valkeybloom_cuckoo_new(8, "BUCKETSIZE 2 EXPANSION 0", &pair[i]));
    for (int i = 0; i < 7; i++) OK(valkeybloom_cuckoo_add(pair[0], ITEM(i), false, NULL));
    OK(valkeybloom_cuckoo_add_many(pair[1], &batch, false, NULL, NULL));
    hold(folder, "cuckoo", "\"fixed\"", pair[0], pair[1]);

    batch = numbered('x', 40);
    for (int i = 0; i < 2; i++) OK(valkeybloom_count_min_new(3, 1, NULL, &pair[i]));
    for (int i = 0; i < 40; i++) OK(valkeybloom_count_min_add(pair[0], ITEM(i), by[i], NULL));
    OK(valkeybloom_count_min_add_many(pair[1], &batch, by));
    hold(folder, "count-min", "\"one row, collisions\"", pair[0], pair[1]);

    for (int i = 0; i < 2; i++) OK(valkeybloom_top_k_new(3, 8, 7, 0.9, &pair[i]));
    for (int i = 0; i < 40; i++) OK(valkeybloom_top_k_add(pair[0], ITEM(i), by[i], NULL));
    OK(valkeybloom_top_k_add_many(pair[1], &batch, by, NULL));
    hold(folder, "top-k", "\"numbered\"", pair[0], pair[1]);

    const double values[] = {1, 2, 3, 4, 5};
    for (int i = 0; i < 2; i++) OK(valkeybloom_tdigest_new(100, &pair[i]));
    for (int i = 0; i < 5; i++) OK(valkeybloom_tdigest_add(pair[0], &values[i], 1));
    OK(valkeybloom_tdigest_add(pair[1], values, 5));
    hold(folder, "t-digest", "\"few\"", pair[0], pair[1]);
    puts("vectors: the bytes are as they were");
    return 0;
}
