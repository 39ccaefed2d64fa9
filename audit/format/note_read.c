#include "audit/format/note.h"

#include <string.h>

#include "audit/format/text_rules_priv.h"
#include "base/text.h"
#include "crypto/ed25519.h"

#define SIGNATURE_PREFIX        "\xe2\x80\x94 "
#define SIGNATURE_PREFIX_LENGTH 4
#define BASE64_MAX              (4 * ((NOTE_KEY_ID_SIZE + NOTE_SIGNATURE_MAX + 2) / 3)) /* characters */

/* Returns where the text ends: at the last "\n\n", whose first line feed belongs to the text. 0: there is none. */
static size_t text_length(struct bytes note)
{
    for (size_t i = note.length; i >= 2; i--)
        if (note.data[i - 1] == '\n' && note.data[i - 2] == '\n') return i - 1;
    return 0;
}

static struct result decode(const struct note_signature *signature, struct buffer *decoded, struct error *err)
{
    TRY(text_from_base64(decoded, BASE64_STANDARD, signature->base64, err));
    if (decoded->length <= NOTE_KEY_ID_SIZE)
        return failure(err, ERROR_INVALID, "a signature line of the note holds no signature");
    return SUCCESS;
}

/* "— name base64", without its line feed. */
static struct result read_signature(struct bytes line, struct note_signature *signature_out, struct error *err)
{
    struct buffer OWNED_BUFFER decoded = BUFFER(NOTE_KEY_ID_SIZE + NOTE_SIGNATURE_MAX);
    struct note_signature signature;

    if (line.length <= SIGNATURE_PREFIX_LENGTH || memcmp(line.data, SIGNATURE_PREFIX, SIGNATURE_PREFIX_LENGTH) != 0)
        return failure(err, ERROR_INVALID, "a line below the note is not a signature line");
    line = (struct bytes){line.data + SIGNATURE_PREFIX_LENGTH, line.length - SIGNATURE_PREFIX_LENGTH};
    const uint8_t *space = memchr(line.data, ' ', line.length);
    if (space == NULL) return failure(err, ERROR_INVALID, "a signature line of the note lacks its name or signature");
    signature.name = (struct bytes){line.data, (size_t)(space - line.data)};
    signature.base64 = (struct bytes){space + 1, line.length - signature.name.length - 1};
    if (!note_name_is_valid(signature.name) || signature.base64.length > BASE64_MAX)
        return failure(err, ERROR_INVALID, "a signature line of the note has a bad name or is too long");
    TRY(decode(&signature, &decoded, err));
    memcpy(signature.id, decoded.data, NOTE_KEY_ID_SIZE);
    *signature_out = signature;
    return SUCCESS;
}

static struct result read_signatures(struct bytes lines, struct note *note, struct error *err)
{
    struct bytes line;

    while (next_line(&lines, &line)) {
        if (note->count == NOTE_SIGNATURES_MAX)
            return failure(err, ERROR_INVALID, "a note with more than %d signatures", NOTE_SIGNATURES_MAX);
        TRY(read_signature(line, &note->signatures[note->count++], err));
    }
    if (note->count == 0) return failure(err, ERROR_INVALID, "the note has no signature");
    return SUCCESS;
}

struct result note_read(struct bytes bytes, struct note *note_out, struct error *err)
{
    if (bytes.length > NOTE_MAX) return failure(err, ERROR_LIMIT, "a note of more than %d bytes", NOTE_MAX);
    if (!note_text_is_valid(bytes))
        return failure(err, ERROR_INVALID, "a note is UTF-8, ends in a line feed and has no control characters");
    const size_t length = text_length(bytes);
    if (length < 1) return failure(err, ERROR_INVALID, "the note has no empty line before its signatures");
    struct note note = {.text = {bytes.data, length}};
    TRY(read_signatures((struct bytes){bytes.data + length + 1, bytes.length - length - 1}, &note, err));
    *note_out = note;
    return SUCCESS;
}

static bool is_by(const struct note_signature *signature, const struct note_key *key)
{
    return bytes_equal(signature->name, bytes_of_text(key->name)) && memcmp(signature->id, key->id, NOTE_KEY_ID_SIZE) == 0;
}

/* A cosignature has its time before the signature, and the signature covers the time and the text. */
static struct result check_cosignature(struct bytes text, const struct note_key *key, struct bytes signature,
                                       uint64_t *time_s_out, struct error *err)
{
    struct buffer OWNED_BUFFER message = BUFFER(NOTE_MAX + 64);
    struct reader reader = reader_of(signature);
    const uint64_t time_s = reader_u64(&reader);
    const struct bytes raw = reader_take(&reader, ED25519_SIGNATURE_SIZE);

    TRY(note_cosignature_message(&message, time_s, text, err));
    if (!reader_is_done(&reader) || !ed25519_verify(key->public_key, buffer_bytes(&message), raw.data))
        return failure(err, ERROR_DENIED, "the cosignature of %.64s is not good", key->name);
    *time_s_out = time_s;
    return SUCCESS;
}

static struct result check(struct bytes text, const struct note_key *key, const struct note_signature *signature,
                           uint64_t *time_s_out, struct error *err)
{
    struct buffer OWNED_BUFFER decoded = BUFFER(NOTE_KEY_ID_SIZE + NOTE_SIGNATURE_MAX);

    TRY(decode(signature, &decoded, err));
    const struct bytes raw = {decoded.data + NOTE_KEY_ID_SIZE, decoded.length - NOTE_KEY_ID_SIZE};
    if (key->algorithm == NOTE_COSIGNATURE) return check_cosignature(text, key, raw, time_s_out, err);
    if (raw.length != ED25519_SIGNATURE_SIZE || !ed25519_verify(key->public_key, text, raw.data))
        return failure(err, ERROR_DENIED, "the signature of %.64s is not good: the note was changed", key->name);
    *time_s_out = 0;
    return SUCCESS;
}

struct result note_verify(const struct note *note, const struct note_key *key, uint64_t *time_s_out, struct error *err)
{
    bool found = false;
    uint64_t time_s = 0;

    for (size_t i = 0; i < note->count; i++) {
        if (!is_by(&note->signatures[i], key)) continue;
        TRY(check(note->text, key, &note->signatures[i], &time_s, err));
        found = true;
    }
    if (!found) return failure(err, ERROR_DENIED, "the note has no signature by the key of %.64s", key->name);
    if (time_s_out != NULL) *time_s_out = time_s;
    return SUCCESS;
}
