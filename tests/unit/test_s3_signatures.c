/* The signatures of requests to an object store: the test suite of AWS, and the examples of the S3 documentation. */
#include "tests/support/unit.h"

#include <string.h>

#include "base/clock.h"
#include "storage/s3_http_priv.h"

/* ---- Signatures: the test suite that AWS published, and the examples of the S3 documentation ---- */

#define EMPTY_HASH "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define SUITE_TIME "20150830T123600Z"
#define S3_TIME    "20130524T000000Z"
#define UNRESERVED "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

static const struct sign_row {
    const char *name, *method, *path;
    struct s3_pair query[3], headers[6]; /* beside those of the suite or of the documentation */
    const char *payload_hash;
    bool is_s3;
    const char *names, *signature;
} sign_rows[] = {
    {"get-vanilla",
     "GET",
     "/",
     {{0}},
     {{0}},
     EMPTY_HASH,
     false,
     "host;x-amz-date",
     "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
    {"get-vanilla-query-order-key-case",
     "GET",
     "/",
     {{"Param2", "value2"}, {"Param1", "value1"}},
     {{0}},
     EMPTY_HASH,
     false,
     "host;x-amz-date",
     "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
    {"get-vanilla-query-unreserved",
     "GET",
     "/",
     {{UNRESERVED, UNRESERVED}},
     {{0}},
     EMPTY_HASH,
     false,
     "host;x-amz-date",
     "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197"},
    {"get-vanilla-empty-query-key",
     "GET",
     "/",
     {{"Param1", "value1"}},
     {{0}},
     EMPTY_HASH,
     false,
     "host;x-amz-date",
     "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb"},
    {"get-vanilla-utf8-query",
     "GET",
     "/",
     {{"\xe1\x88\xb4", "bar"}},
     {{0}},
     EMPTY_HASH,
     false,
     "host;x-amz-date",
     "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04"},
    {"get-utf8",
     "GET",
     "/\xe1\x88\xb4",
     {{0}},
     {{0}},
     EMPTY_HASH,
     false,
     "host;x-amz-date",
     "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"},
    {"get-unreserved",
     "GET",
     "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
     {{0}},
     {{0}},
     EMPTY_HASH,
     false,
     "host;x-amz-date",
     "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"},
    {"get-header-value-trim",
     "GET",
     "/",
     {{0}},
     {{"my-header1", " value1"}, {"my-header2", " \"a   b   c\""}},
     EMPTY_HASH,
     false,
     "host;my-header1;my-header2;x-amz-date",
     "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"},
    {"get-header-key-duplicate",
     "GET",
     "/",
     {{0}},
     {{"my-header1", "value2"}, {"my-header1", "value2"}, {"my-header1", "value1"}},
     EMPTY_HASH,
     false,
     "host;my-header1;x-amz-date",
     "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea"},
    {"get-header-value-order",
     "GET",
     "/",
     {{0}},
     {{"my-header1", "value4"}, {"my-header1", "value1"}, {"my-header1", "value3"}, {"my-header1", "value2"}},
     EMPTY_HASH,
     false,
     "host;my-header1;x-amz-date",
     "08c7e5a9acfcfeb3ab6b2185e75ce8b1deb5e634ec47601a50643f830c755c01"},
    {"post-vanilla",
     "POST",
     "/",
     {{0}},
     {{0}},
     EMPTY_HASH,
     false,
     "host;x-amz-date",
     "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
    {"post-vanilla-query",
     "POST",
     "/",
     {{"Param1", "value1"}},
     {{0}},
     EMPTY_HASH,
     false,
     "host;x-amz-date",
     "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11"},
    {"post-x-www-form-urlencoded",
     "POST",
     "/",
     {{0}},
     {{"content-type", "application/x-www-form-urlencoded"}},
     "9095672bbd1f56dfc5b65f3e153adc8731a4a654192329106275f4c7b24d0b6e",
     false,
     "content-type;host;x-amz-date",
     "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"},
    {"S3: get part of an object",
     "GET",
     "/test.txt",
     {{0}},
     {{"range", "bytes=0-9"}, {"x-amz-content-sha256", EMPTY_HASH}},
     EMPTY_HASH,
     true,
     "host;range;x-amz-content-sha256;x-amz-date",
     "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
    {"S3: put an object",
     "PUT",
     "/test%24file.text",
     {{0}},
     {{"date", "Fri, 24 May 2013 00:00:00 GMT"},
      {"x-amz-content-sha256", "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"},
      {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
     "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
     true,
     "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
     "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"},
    {"S3: get a bucket's lifecycle, a key without a value",
     "GET",
     "/",
     {{"lifecycle", ""}},
     {{"x-amz-content-sha256", EMPTY_HASH}},
     EMPTY_HASH,
     true,
     "host;x-amz-content-sha256;x-amz-date",
     "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
    {"S3: list a bucket",
     "GET",
     "/",
     {{"prefix", "J"}, {"max-keys", "2"}},
     {{"x-amz-content-sha256", EMPTY_HASH}},
     EMPTY_HASH,
     true,
     "host;x-amz-content-sha256;x-amz-date",
     "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
};

static size_t count_pairs(const struct s3_pair *pairs, size_t maximum)
{
    size_t count = 0;

    while (count < maximum && pairs[count].name != NULL) count++;
    return count;
}

static struct result sign_row(const struct sign_row *row, struct buffer *out, struct error *err)
{
    static const char suite_secret[] = "AWS4wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
    static const char s3_secret[] = "AWS4wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
    struct s3_pair headers[S3_PAIRS_MAX] = {{"x-amz-date", row->is_s3 ? S3_TIME : SUITE_TIME},
                                            {"host", row->is_s3 ? "examplebucket.s3.amazonaws.com" : "example.amazonaws.com"}};
    const size_t given = count_pairs(row->headers, COUNT(row->headers));
    struct buffer OWNED_BUFFER path = BUFFER(4096);
    const bool is_encoded = strchr(row->path, '%') != NULL;
    int64_t now = 0;

    if (!is_encoded) TRY(s3_encode(&path, row->path, true, err));
    memcpy(headers + 2, row->headers, given * sizeof headers[0]);
    assert_true(clock_parse(bytes_of_text(row->is_s3 ? "2013-05-24T00:00:00Z" : "2015-08-30T12:36:00Z"), &now));
    const struct s3_signable signable = {.method = row->method,
                                         .path = is_encoded ? row->path : buffer_text(&path),
                                         .query = row->query,
                                         .query_count = count_pairs(row->query, COUNT(row->query)),
                                         .headers = headers,
                                         .header_count = given + 2,
                                         .payload_hash = row->payload_hash,
                                         .wall_ms = now};
    const struct s3_signer signer = {.access_key_id = row->is_s3 ? "AKIAIOSFODNN7EXAMPLE" : "AKIDEXAMPLE",
                                     .secret = bytes_of_text(row->is_s3 ? s3_secret : suite_secret),
                                     .location = "us-east-1",
                                     .service = row->is_s3 ? "s3" : "service"};
    return s3_sign(&signable, &signer, out, err);
}

static void signs_as_aws_says(void **state)
{
    const struct sign_row *row = *state;
    struct buffer OWNED_BUFFER signature = BUFFER(2048), expected = BUFFER(2048);
    struct error err = {0};

    assert_true(sign_row(row, &signature, &err).ok);
    assert_true(buffer_format(&expected, &err,
                              "AWS4-HMAC-SHA256 Credential=%s/%s/us-east-1/%s/aws4_request, SignedHeaders=%s, Signature=%s",
                              row->is_s3 ? "AKIAIOSFODNN7EXAMPLE" : "AKIDEXAMPLE", row->is_s3 ? "20130524" : "20150830",
                              row->is_s3 ? "s3" : "service", row->names, row->signature)
                    .ok);
    assert_string_equal(buffer_text(&signature), buffer_text(&expected));
}

static struct result sign_any(void *context, struct error *err)
{
    struct buffer OWNED_BUFFER signature = BUFFER(2048);

    return sign_row(context, &signature, err);
}

static void a_signature_may_fail_anywhere(void **state)
{
    (void)state;
    fail_each(sign_any, (void *)(uintptr_t)&sign_rows[1], ERROR_NO_MEMORY, 5);
}

static void the_canonical_request_is_as_published(void **state)
{
    static const struct s3_pair headers[] = {{"x-amz-date", SUITE_TIME}, {"host", "example.amazonaws.com"}};
    static const struct s3_pair query[] = {{"b", "2"}, {"a", "z"}, {"a", "b c"}, {"a+", "~"}};
    const struct s3_signable signable = {.method = "GET",
                                         .path = "/",
                                         .query = query,
                                         .query_count = 4,
                                         .headers = headers,
                                         .header_count = 2,
                                         .payload_hash = EMPTY_HASH};
    struct buffer OWNED_BUFFER text = BUFFER(4096);
    struct error err = {0};

    (void)state;
    assert_true(s3_canonical_request(&signable, &text, &err).ok);
    assert_string_equal(buffer_text(&text), "GET\n/\na=b%20c&a=z&a%2B=~&b=2\nhost:example.amazonaws.com\nx-amz-date:" SUITE_TIME
                                            "\n\nhost;x-amz-date\n" EMPTY_HASH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_canonical_request_is_as_published),
        cmocka_unit_test(a_signature_may_fail_anywhere),
    };

    return RUN_TABLE(sign_rows, signs_as_aws_says) + cmocka_run_group_tests(tests, NULL, NULL);
}
