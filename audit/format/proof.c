#include "audit/format/proof.h"

#include <string.h>

#include "audit/format/note.h"
#include "audit/format/text_rules_priv.h"
#include "base/text.h"

#define FIRST_LINE "c2sp.org/tlog-proof@v1"

struct result tlog_proof_write(const struct tlog_proof *proof, struct buffer *text, struct error *err)
{
    TRY(buffer_add_text(text, FIRST_LINE "\n", err));
    if (proof->extra.length > 0) {
        TRY(buffer_add_text(text, "extra ", err));
        TRY(buffer_add(text, proof->extra.data, proof->extra.length, err));
        TRY(buffer_add_u8(text, '\n', err));
    }
    TRY(buffer_format(text, err, "index %llu\n", (unsigned long long)proof->index));
    for (size_t i = 0; i < proof->inclusion.count; i++) {
        const struct bytes hash = {proof->inclusion.hashes[i].bytes, MERKLE_HASH_SIZE};
        TRY(text_base64(text, BASE64_STANDARD, hash, err));
        TRY(buffer_add_u8(text, '\n', err));
    }
    TRY(buffer_add_u8(text, '\n', err));
    return buffer_add(text, proof->note.data, proof->note.length, err);
}

static bool drop_prefix(struct bytes *line, const char *prefix)
{
    const size_t length = strlen(prefix);

    if (line->length < length || memcmp(line->data, prefix, length) != 0) return false;
    *line = (struct bytes){line->data + length, line->length - length};
    return true;
}

static struct result read_extra(struct bytes base64, struct tlog_proof *proof, struct error *err)
{
    struct buffer OWNED_BUFFER decoded = BUFFER(TLOG_PROOF_MAX);

    if (base64.length > 0 && text_from_base64(&decoded, BASE64_STANDARD, base64, err).ok) {
        proof->extra = base64;
        return SUCCESS;
    }
    if (base64.length > 0 && err->kind == ERROR_NO_MEMORY) return (struct result){.ok = false};
    return failure(err, ERROR_INVALID, "the proof's extra line is not base64");
}

static struct result add_hash(struct bytes line, struct merkle_proof *inclusion, struct error *err)
{
    if (inclusion->count == MERKLE_PROOF_MAX)
        return failure(err, ERROR_INVALID, "a proof with more than %d hashes", MERKLE_PROOF_MAX);
    if (!text_from_base64_exactly(BASE64_STANDARD, line, inclusion->hashes[inclusion->count].bytes, MERKLE_HASH_SIZE))
        return failure(err, ERROR_INVALID, "line %zu of the proof's hashes is not a hash of 32 bytes", inclusion->count + 1);
    inclusion->count++;
    return SUCCESS;
}

struct result tlog_proof_read(struct bytes text, struct tlog_proof *proof_out, struct error *err)
{
    struct tlog_proof proof = {0};
    struct bytes line;

    if (text.length > TLOG_PROOF_MAX) return failure(err, ERROR_LIMIT, "a proof of more than %d bytes", TLOG_PROOF_MAX);
    if (!next_line(&text, &line) || !bytes_equal(line, bytes_of_text(FIRST_LINE)))
        return failure(err, ERROR_INVALID, "not a proof: it does not begin with \"" FIRST_LINE "\"");
    if (!next_line(&text, &line)) return failure(err, ERROR_INVALID, "the proof ends after its first line");
    if (drop_prefix(&line, "extra ")) {
        TRY(read_extra(line, &proof, err));
        if (!next_line(&text, &line)) return failure(err, ERROR_INVALID, "the proof ends after its extra line");
    }
    if (!drop_prefix(&line, "index ") || !text_to_u64(line, MERKLE_SIZE_MAX, &proof.index))
        return failure(err, ERROR_INVALID, "the proof lacks the line that states the entry's index");
    for (;;) {
        if (!next_line(&text, &line)) return failure(err, ERROR_INVALID, "the proof ends before its checkpoint");
        if (line.length == 0) break;
        TRY(add_hash(line, &proof.inclusion, err));
    }
    proof.note = text;
    *proof_out = proof;
    return SUCCESS;
}
