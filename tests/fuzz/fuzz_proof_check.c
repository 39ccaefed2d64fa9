/* The input of sijil-verify, all from strangers: a key, an entry and a proof, divided by lines of "~~~". */
#include <assert.h>
#include <string.h>

#include "audit/format/proof_check.h"
#include "audit/format/tile.h"
#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct bytes take(struct bytes *left)
{
    static const char mark[] = "~~~\n";
    const uint8_t *stop = left->length == 0 ? NULL : memmem(left->data, left->length, mark, sizeof mark - 1);
    const struct bytes part = {left->data, stop == NULL ? left->length : (size_t)(stop - left->data)};
    const size_t used = part.length + (stop == NULL ? 0 : sizeof mark - 1);

    left->data += used;
    left->length -= used;
    return part;
}

static void check_report(const struct proof_report *report)
{
    struct buffer OWNED_BUFFER text = BUFFER(65536), json = BUFFER(65536);
    OWNED_JSON value = NULL;
    struct error err = {0};

    assert(report->index < report->checkpoint.size);
    assert(proof_report_text(report, &text, &err).ok && proof_report_json(report, &json, &err).ok);
    assert(json_read(buffer_bytes(&json), 65536, &value, &err).ok && json_is_object(value));
}

static void check_frontier(struct bytes stored, uint64_t size)
{
    struct buffer OWNED_BUFFER again = BUFFER(64 * MERKLE_HASH_SIZE);
    static struct merkle_frontier frontier;
    struct error err;

    if (!merkle_frontier_read(size, stored, &frontier, &err).ok) return;
    assert(frontier.size == size && merkle_frontier_write(&frontier, &again, &err).ok);
    assert(bytes_equal(buffer_bytes(&again), stored));
    (void)merkle_frontier_root(&frontier);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct proof_report report;
    struct bytes left = {data, size};
    struct error err = {0};

    const struct bytes vkey = take(&left), entry = take(&left), proof = take(&left);
    if (proof_check(vkey, entry, proof, &report, &err).ok) check_report(&report);
    else assert(err.kind != ERROR_NONE && err.message[0] != '\0');
    if (size > 8) {
        uint64_t count = 0;
        memcpy(&count, data, sizeof count);
        check_frontier((struct bytes){data + 8, size - 8}, count);
    }
    return 0;
}
