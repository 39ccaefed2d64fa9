/* Every stored byte is as docs/formats/sjb1.md demands: vectors from another implementation. */
#include "tests/support/unit.h"

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "storage/sjb1_priv.h"
#include "tests/support/blob.h"

#define FILE_MAX (1 << 20)

/* Gives the bytes that the vectors state, in their order. */
struct stated_random {
    struct buffer bytes;
    size_t at;
};

static void draw(void *context, uint8_t *out, size_t length)
{
    struct stated_random *random = context;

    assert_true(length <= random->bytes.length - random->at);
    memcpy(out, random->bytes.data + random->at, length);
    random->at += length;
}

static void add_hex(struct buffer *out, const char *hex)
{
    uint8_t *place = NULL;
    struct error err = {0};

    assert_non_null(hex);
    const size_t length = strlen(hex) / 2;
    must(buffer_reserve(out, length, &place, &err), &err);
    assert_true(text_from_hex(bytes_of_text(hex), place, length));
    out->length += length;
}

static void assert_hex(struct bytes bytes, const char *hex, const char *what)
{
    struct buffer OWNED_BUFFER expected = BUFFER(FILE_MAX);

    add_hex(&expected, hex);
    if (!bytes_equal(bytes, buffer_bytes(&expected))) fail_msg("%s: other bytes than the vectors say", what);
}

static struct uuid uuid_of(const json_t *object, const char *key)
{
    struct uuid uuid;

    assert_true(text_from_hex(bytes_of_text(json_text_of(object, key)), uuid.bytes, sizeof uuid.bytes));
    return uuid;
}

static int64_t integer_of(const json_t *object, const char *key)
{
    int64_t value = 0;

    assert_true(json_integer_of(object, key, &value));
    return value;
}

static void write_content(struct blob_writer *writer, uint64_t until)
{
    struct error err = {0};

    while (blob_writer_offset(writer) < until) {
        uint8_t block[1000]; /* so that pieces and records do not meet */
        size_t length = 0;
        for (uint64_t i = blob_writer_offset(writer); i < until && length < sizeof block; i++)
            block[length++] = (uint8_t)(7 * i + i / 251);
        must(blob_writer_write(writer, (struct bytes){block, length}, &err), &err);
    }
}

static void check_header(struct blob_test *test, const json_t *vector)
{
    struct sjb1_context format;
    uint8_t commitment[32];
    struct error err = {0};

    must(sjb1_context_make(&test->upload.identity, secret_bytes(test->key), &format, &err), &err);
    assert_hex((struct bytes){format.header, 88}, json_text_of(vector, "header"), "header");
    assert_hex((struct bytes){format.salt, sizeof format.salt}, json_text_of(vector, "h"), "H");
    must(blob_commitment(&test->upload.identity, test->key, commitment, &err), &err);
    assert_hex((struct bytes){commitment, sizeof commitment}, json_text_of(vector, "commitment"), "commitment");
    assert_hex(uuid_bytes(&test->upload.identity.blob), json_text_of(vector, "blob"), "blob id");
}

static void check_checkpoint(struct blob_test *test, const json_t *vector)
{
    struct buffer OWNED_BUFFER stored = BUFFER(FILE_MAX);
    struct error err = {0};
    char suffix[34] = "c", path[160];

    assert_hex((struct bytes){test->row.digest, SHA256_SIZE}, json_text_of(vector, "digest"), "checkpoint's digest");
    text_hex(test->row.digest, 16, suffix + 1);
    blob_test_path(test, suffix, path);
    must(file_read(path, &stored, &err), &err);
    if (json_text_of(vector, "stored") != NULL) assert_hex(buffer_bytes(&stored), json_text_of(vector, "stored"), "checkpoint");
}

static void check_state(const json_t *vector)
{
    struct buffer OWNED_BUFFER plain = BUFFER(FILE_MAX);
    struct buffer OWNED_BUFFER again = BUFFER(FILE_MAX);
    OWNED(sjb1_state) *state = NULL;
    struct error err = {0};

    if (json_text_of(vector, "state") == NULL) return;
    add_hex(&plain, json_text_of(vector, "state"));
    must(sjb1_state_parse(buffer_bytes(&plain), (uint64_t)integer_of(vector, "offset"), &state, &err), &err);
    const struct sjb1_view view = {
        (const struct hasher *const *)state->hashers, state->hasher_count, &state->extents, {state->tail, state->tail_length}};
    must(sjb1_state_format(&view, &again, &err), &err);
    assert_true(bytes_equal(buffer_bytes(&plain), buffer_bytes(&again)));
}

static void check_files(struct blob_test *test, const json_t *files)
{
    for (size_t i = 0; i < json_array_size(files); i++) {
        struct buffer OWNED_BUFFER stored = BUFFER(FILE_MAX);
        const json_t *file = json_array_get(files, i);
        struct error err = {0};
        uint8_t digest[SHA256_SIZE];
        char suffix[16], path[160];

        (void)snprintf(suffix, sizeof suffix, "e%d", (int)integer_of(file, "part"));
        blob_test_path(test, suffix, path);
        must(file_read(path, &stored, &err), &err);
        assert_int_equal(stored.length, integer_of(file, "size"));
        sha256_of(buffer_bytes(&stored), digest);
        assert_hex((struct bytes){digest, sizeof digest}, json_text_of(file, "sha256"), path);
    }
}

static void check_trailer(struct blob_test *test, const json_t *vector)
{
    struct buffer OWNED_BUFFER plain = BUFFER(FILE_MAX);
    struct buffer OWNED_BUFFER sealed = BUFFER(FILE_MAX);
    struct sjb1_trailer trailer;
    struct sjb1_context format;
    struct error err = {0};
    uint8_t key[SJB1_KEY_SIZE];

    add_hex(&plain, json_text_of(vector, "trailer_plain"));
    must(sjb1_trailer_parse(buffer_bytes(&plain), &trailer, &err), &err);
    must(sjb1_context_make(&test->upload.identity, secret_bytes(test->key), &format, &err), &err);
    for (size_t i = 0; i < trailer.extents.count; i++) {
        must(sjb1_key(&format, secret_bytes(test->key), SJB1_INFO_DATA, trailer.extents.list[i].salt, key, &err), &err);
        const json_t *stated = json_array_get(json_object_get(vector, "data_keys"), i);
        assert_hex((struct bytes){key, sizeof key}, json_string_value(stated), "data key");
    }
    add_hex(&sealed, json_text_of(vector, "trailer"));
    must(sjb1_key(&format, secret_bytes(test->key), SJB1_INFO_TRAILER, sealed.data, key, &err), &err);
    struct buffer OWNED_BUFFER again = BUFFER(FILE_MAX);
    must(sjb1_trailer_seal(&trailer, key, sealed.data, &again, &err), &err);
    assert_true(bytes_equal(buffer_bytes(&sealed), buffer_bytes(&again)));
    sjb1_trailer_done(&trailer);
}

/* As the vectors' writers: one after the other, each lost after its checkpoint. */
static void upload(struct blob_test *test, const json_t *vector, struct blob_content *content)
{
    const json_t *checkpoints = json_object_get(vector, "checkpoints");
    struct error err = {0};

    for (size_t i = 0; i <= json_array_size(checkpoints); i++) {
        OWNED(blob_writer) *writer = NULL;
        struct digest digests[2];

        must(blob_test_writer(test, &writer, &err), &err);
        if (i < json_array_size(checkpoints)) {
            const json_t *checkpoint = json_array_get(checkpoints, i);
            write_content(writer, (uint64_t)integer_of(checkpoint, "offset"));
            must(blob_test_checkpoint(test, writer, &err), &err);
            check_checkpoint(test, checkpoint);
            check_state(checkpoint);
            continue;
        }
        write_content(writer, (uint64_t)integer_of(vector, "length"));
        (void)blob_writer_digests(writer, digests);
        must(blob_writer_close(writer, &digests[0], content, &err), &err);
    }
    assert_int_equal(content->part, integer_of(vector, "part"));
}

static void check_vector(const json_t *root, const json_t *vector)
{
    OWNED(blob_reader) *reader = NULL;
    struct stated_random random = {.bytes = BUFFER(FILE_MAX)};
    const struct blob_random source = {.fill = draw, .context = &random};
    const struct uuid project = uuid_of(root, "project");
    struct blob_test test = {.folder = blob_test_folder_new(false), .kind = DRIVER_FS};
    struct blob_content content;
    struct error err = {0};

    add_hex(&random.bytes, json_text_of(vector, "random"));
    must(driver_fs_open(test.folder.path, UINT64_MAX, &test.driver, &err), &err);
    must(blob_store_new(test.driver, json_text_of(root, "region"), &source, &test.store, &err), &err);
    must(secret_new(32, &test.key, &err), &err);
    assert_true(text_from_hex(bytes_of_text(json_text_of(root, "data_key")), test.key->bytes, 32));
    test.upload.upload = uuid_of(root, "upload");
    test.upload.with_sha512 = json_is_true(json_object_get(vector, "sha512"));
    test.upload.identity = blob_identity_new(test.store, &project);

    check_header(&test, vector);
    upload(&test, vector, &content);
    assert_int_equal(random.at, random.bytes.length);
    check_files(&test, json_object_get(vector, "files"));
    check_trailer(&test, vector);
    must(blob_reader_open(test.store, &test.upload.identity, &content, test.key, &reader, &err), &err);
    must(blob_verify(reader, &(struct blob_verify_options){.with_digest = true}, &err), &err);
    buffer_done(&random.bytes);
    blob_reader_free(GIVE(reader));
    blob_test_done(&test);
}

static void the_bytes_are_those_of_the_vectors(void **state)
{
    struct buffer OWNED_BUFFER text = BUFFER(FILE_MAX);
    OWNED_JSON root = NULL;
    struct error err = {0};

    (void)state;
    must(file_read(SJB1_VECTORS, &text, &err), &err);
    must(json_read(buffer_bytes(&text), FILE_MAX, &root, &err), &err);
    const json_t *cases = json_object_get(root, "cases");
    assert_in_range(json_array_size(cases), 8, 100);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        print_message("%s\n", json_text_of(json_array_get(cases, i), "name"));
        check_vector(root, json_array_get(cases, i));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_bytes_are_those_of_the_vectors)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
