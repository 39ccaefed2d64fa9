/* A leaf that is read must be written again to the byte; what the quick reader reads, the other one reads, too; and a glance sees what it reads. */
#include <assert.h>
#include <string.h>

#include "audit/format/leaf_glance.h"
#include "audit/format/leaf_quick_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must_be(const struct leaf *leaf, struct bytes text)
{
    struct buffer OWNED_BUFFER again = BUFFER(2 * LEAF_MAX);
    struct error err;

    assert(leaf_write(leaf, &again, &err).ok);
    assert(bytes_equal(buffer_bytes(&again), text));
}

static void must_see(const struct leaf_glance *glance, const struct leaf *leaf)
{
    assert(bytes_equal(glance->actor, bytes_of_text(leaf->actor)) && strcmp(glance->policy, leaf->reason.policy) == 0);
    assert(glance->target_count == leaf->target_count && glance->facts_count == leaf->facts_count);
    assert(memcmp(glance->facts, leaf->facts, leaf->facts_count * LEAF_FACTS_DIGEST) == 0);
    for (size_t i = 0; i < leaf->target_count; i++) {
        assert(bytes_equal(glance->targets[i].action, bytes_of_text(leaf->targets[i].action)));
        assert(bytes_equal(glance->targets[i].resource, bytes_of_text(leaf->targets[i].resource)));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct bytes text = {data, size};
    struct leaf_glance glance;
    struct leaf leaf;
    struct error err;

    const bool is_glanced = leaf_glance(text, &glance);
    const bool is_quick = leaf_read_quick(text, &leaf);
    if (is_quick) must_be(&leaf, text);
    const bool is_read = leaf_read_any(text, &leaf, &err).ok;
    if (is_read) must_be(&leaf, text);
    assert(is_read || !is_quick);
    assert(is_glanced || !is_quick);
    if (is_glanced && is_read) must_see(&glance, &leaf);
    assert(leaf_read(text, &leaf, &err).ok == is_read);
    return 0;
}
