/* The cache of manifests: rows are found unchanged, never after a change, and their number is bounded. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "base/memory.h"
#include "registry/manifest_cache_priv.h"

static const struct uuid repository = {.bytes = {7, 1, 2, 3, 4, 5, 6, 7, 8}}, other = {.bytes = {9}};

static struct manifest_row row_of(const char *digest, struct bytes sealed)
{
    return (struct manifest_row){.digest = digest,
                                 .media_type = "application/vnd.oci.image.manifest.v1+json",
                                 .artifact_type = "",
                                 .size_bytes = 12,
                                 .sealed = sealed};
}

static bool has(struct manifest_cache *cache, const struct uuid *in, const char *reference, uint64_t alterations)
{
    const struct manifest_key key = {.repository = *in, .reference = reference, .alterations = alterations};
    struct manifest_row row = {0};
    OWNED(cached_manifest) *cached = manifest_cache_get(cache, &key, &row);

    return cached != NULL;
}

static void put(struct manifest_cache *cache, const char *reference, uint64_t alterations, size_t size)
{
    static const uint8_t zeros[MANIFEST_CACHED_MAX];
    const struct manifest_key key = {.repository = repository, .reference = reference, .alterations = alterations};
    const struct manifest_row row = row_of("sha256:aa", (struct bytes){zeros, size});

    manifest_cache_put(cache, &key, &row);
}

static void finds_what_was_put(void **state)
{
    OWNED(manifest_cache) *cache = NULL;
    struct error err = {0};
    struct manifest_row row = {0};
    char digest[] = "sha256:bb", sealed[] = "sealed bytes", reference[] = "v1";
    const struct manifest_key key = {.repository = repository, .reference = reference, .alterations = 5};
    const struct manifest_row before = row_of(digest, bytes_of_text(sealed));

    (void)state;
    assert_true(manifest_cache_new(&cache, &err).ok);
    manifest_cache_put(cache, &key, &before);
    digest[7] = sealed[0] = 'x'; /* it has copies */
    struct cached_manifest *cached = manifest_cache_get(cache, &key, &row);
    assert_non_null(cached);
    put(cache, "v1", 6, 3); /* replaces it, but its present user keeps it */
    assert_string_equal(row.digest, "sha256:bb");
    assert_true(bytes_equal(row.sealed, bytes_of_text("sealed bytes")));
    assert_string_equal(row.media_type, before.media_type);
    assert_int_equal(row.size_bytes, 12);
    cached_manifest_free(cached);
    assert_false(has(cache, &repository, "v1", 5));
    assert_true(has(cache, &repository, "v1", 6));
}

static void tells_apart(void **state)
{
    OWNED(manifest_cache) *cache = NULL;
    struct error err = {0};

    (void)state;
    assert_true(manifest_cache_new(&cache, &err).ok);
    put(cache, "v1", 5, 10);
    assert_true(has(cache, &repository, "v1", 5));
    assert_false(has(cache, &repository, "v1", 4));
    assert_false(has(cache, &repository, "v1", 6));
    assert_false(has(cache, &repository, "v2", 5));
    assert_false(has(cache, &other, "v1", 5));
}

static void keeps_to_its_bounds(void **state)
{
    OWNED(manifest_cache) *cache = NULL;
    struct error err = {0};
    char reference[16];
    size_t kept = 0;

    (void)state;
    assert_true(manifest_cache_new(&cache, &err).ok);
    put(cache, "large", 0, MANIFEST_CACHED_MAX);
    assert_false(has(cache, &repository, "large", 0));
    for (unsigned i = 0; i < 4000; i++) {
        (void)snprintf(reference, sizeof reference, "t%u", i);
        put(cache, reference, 0, 10000);
        assert_true(has(cache, &repository, reference, 0));
    }
    for (unsigned i = 0; i < 4000; i++) {
        (void)snprintf(reference, sizeof reference, "t%u", i);
        kept += has(cache, &repository, reference, 0) ? 1 : 0;
    }
    assert_true(kept * 10000 <= MANIFEST_CACHE_BYTES);
    assert_true(kept * 10000 > MANIFEST_CACHE_BYTES / 2);
}

static struct result make_a_cache(void *context, struct error *err)
{
    OWNED(manifest_cache) *cache = NULL;

    (void)context;
    TRY_UNTOUCHED_BYTES(cache, manifest_cache_new(&cache, err));
    return SUCCESS;
}

static void without_memory_nothing_is_kept(void **state)
{
    OWNED(manifest_cache) *cache = NULL;
    struct error err = {0};

    (void)state;
    fail_each(make_a_cache, NULL, ERROR_NO_MEMORY, 1);
    assert_true(manifest_cache_new(&cache, &err).ok);
    fault_arm(1);
    put(cache, "v1", 0, 10);
    assert_true(fault_has_fired());
    fault_arm(0);
    assert_false(has(cache, &repository, "v1", 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_what_was_put),
        cmocka_unit_test(tells_apart),
        cmocka_unit_test(keeps_to_its_bounds),
        cmocka_unit_test(without_memory_nothing_is_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
