#include "audit/format/note.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "audit/format/text_rules_priv.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "crypto/ed25519.h"

#define SIGNATURE_PREFIX "\xe2\x80\x94 " /* an em dash and a space */

/* Key id: the first four bytes of SHA-256(name || 0x0A || algorithm || public key). */
static void compute_key_id(struct bytes name, uint8_t algorithm, struct bytes public_key, uint8_t id_out[NOTE_KEY_ID_SIZE])
{
    uint8_t input[NOTE_NAME_MAX + 2 + ED25519_PUBLIC_SIZE]; /* name, line feed, algorithm, key */
    uint8_t digest[SHA256_SIZE];

    assert(name.length <= NOTE_NAME_MAX && public_key.length == ED25519_PUBLIC_SIZE);
    memcpy(input, name.data, name.length);
    input[name.length] = '\n';
    input[name.length + 1] = algorithm;
    memcpy(input + name.length + 2, public_key.data, public_key.length);
    sha256_of((struct bytes){input, name.length + 2 + public_key.length}, digest);
    memcpy(id_out, digest, NOTE_KEY_ID_SIZE);
}

struct result note_key_make(const char *name, enum note_algorithm algorithm, const uint8_t public_key[32],
                            struct note_key *key_out, struct error *err)
{
    const struct bytes name_bytes = bytes_of_text(name);
    struct note_key key = {.algorithm = algorithm};

    if (name_bytes.length > NOTE_NAME_MAX || !note_name_is_valid(name_bytes))
        return failure(err, ERROR_INVALID, "the name of a log key is 1 to %d letters without spaces and '+'", NOTE_NAME_MAX);
    if (algorithm != NOTE_ED25519 && algorithm != NOTE_COSIGNATURE)
        return failure(err, ERROR_INVALID, "a log key of algorithm %d; 1 and 4 (Ed25519) are known", (int)algorithm);
    memcpy(key.name, name_bytes.data, name_bytes.length);
    memcpy(key.public_key, public_key, sizeof key.public_key);
    compute_key_id(name_bytes, (uint8_t)algorithm, (struct bytes){public_key, ED25519_PUBLIC_SIZE}, key.id);
    *key_out = key;
    return SUCCESS;
}

struct result note_key_read(struct bytes vkey, struct note_key *key_out, struct error *err)
{
    uint8_t material[1 + ED25519_PUBLIC_SIZE];
    struct note_key key;
    uint8_t id[NOTE_KEY_ID_SIZE];
    char name[NOTE_NAME_MAX + 1] = {0};

    const struct bytes name_bytes = text_cut(&vkey, '+');
    const struct bytes hex = text_cut(&vkey, '+');
    if (name_bytes.length > NOTE_NAME_MAX || !note_name_is_valid(name_bytes) || !text_from_hex(hex, id, sizeof id) ||
        !text_from_base64_exactly(BASE64_STANDARD, vkey, material, sizeof material))
        return failure(err, ERROR_INVALID, "a log's public key has the form name+12345678+base64, as the log prints it");
    memcpy(name, name_bytes.data, name_bytes.length);
    TRY(note_key_make(name, (enum note_algorithm)material[0], material + 1, &key, err));
    if (memcmp(id, key.id, sizeof id) != 0)
        return failure(err, ERROR_INVALID, "the log's public key is damaged: its key id is not that of the key");
    *key_out = key;
    return SUCCESS;
}

struct result note_key_write(const struct note_key *key, struct buffer *vkey, struct error *err)
{
    uint8_t material[1 + ED25519_PUBLIC_SIZE] = {(uint8_t)key->algorithm};
    char hex[2 * NOTE_KEY_ID_SIZE + 1];

    memcpy(material + 1, key->public_key, ED25519_PUBLIC_SIZE);
    text_hex(key->id, sizeof key->id, hex);
    TRY(buffer_format(vkey, err, "%s+%s+", key->name, hex));
    return text_base64(vkey, BASE64_STANDARD, (struct bytes){material, sizeof material}, err);
}

struct result note_write_text(struct buffer *note, struct bytes text, struct error *err)
{
    if (!note_text_is_valid(text))
        return failure(err, ERROR_INVALID, "a note's text is UTF-8, ends in a line feed and has no control characters");
    TRY(buffer_add(note, text.data, text.length, err));
    return buffer_add_u8(note, '\n', err);
}

struct result note_write_signature(struct buffer *note, const struct note_key *key, struct bytes signature, struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(NOTE_KEY_ID_SIZE + 8 + ED25519_SIGNATURE_SIZE);
    const size_t expected = key->algorithm == NOTE_COSIGNATURE ? 8 + ED25519_SIGNATURE_SIZE : ED25519_SIGNATURE_SIZE;

    assert(signature.length == expected);
    TRY(buffer_add(&payload, key->id, sizeof key->id, err));
    TRY(buffer_add(&payload, signature.data, signature.length, err));
    TRY(buffer_format(note, err, SIGNATURE_PREFIX "%s ", key->name));
    TRY(text_base64(note, BASE64_STANDARD, buffer_bytes(&payload), err));
    return buffer_add_u8(note, '\n', err);
}

struct result note_cosignature_message(struct buffer *message, uint64_t time_s, struct bytes text, struct error *err)
{
    TRY(buffer_format(message, err, "cosignature/v1\ntime %llu\n", (unsigned long long)time_s));
    return buffer_add(message, text.data, text.length, err);
}
