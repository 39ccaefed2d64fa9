/* What goes to an object store and what comes back, without one: signatures, answers, heads, keys. */
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

/* ---- Answers ---- */

static const struct location_row {
    const char *name, *xml, *location; /* NULL: refused */
} location_rows[] = {
    {"as Amazon says it",
     "<?xml version=\"1.0\"?><LocationConstraint xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">me-central-1</LocationConstraint>",
     "me-central-1"},
    {"nothing is us-east-1", "<LocationConstraint/>", "us-east-1"},
    {"nothing, with an attribute", "<LocationConstraint xmlns=\"x\"></LocationConstraint>", "us-east-1"},
    {"EU is eu-west-1", "<LocationConstraint>EU</LocationConstraint>", "eu-west-1"},
    {"one within another", "<GetBucketLocationOutput><LocationConstraint>garage</LocationConstraint></GetBucketLocationOutput>",
     "garage"},
    {"a prefix of a namespace", "<s3:LocationConstraint xmlns:s3=\"x\">eu-west-2</s3:LocationConstraint>", "eu-west-2"},
    {"another answer", "<ListBucketResult><Name>eu-west-2</Name></ListBucketResult>", NULL},
    {"no XML", "me-central-1", NULL},
    {"nothing at all", "", NULL},
    {"cut", "<LocationConstraint>me-central-1</Locat", NULL},
    {"letters that no location has", "<LocationConstraint>me central\n1</LocationConstraint>", NULL},
    {"an entity of its own", "<!DOCTYPE a [<!ENTITY b \"me-central-1\">]><LocationConstraint>&b;</LocationConstraint>", NULL},
    {"a document type from elsewhere", "<!DOCTYPE a SYSTEM \"file:///etc/passwd\"><LocationConstraint>a</LocationConstraint>",
     NULL},
    {"too deep", "<a><a><a><a><a><a><a><a><LocationConstraint>a</LocationConstraint></a></a></a></a></a></a></a></a>", NULL},
    {"too long a name",
     "<a2345678901234567890123456789012345678901234567890123456789012345><LocationConstraint>a</LocationConstraint></a2345678901234567890123456789012345678901234567890123456789012345>",
     NULL},
    {"another encoding", "<?xml version=\"1.0\"?><LocationConstraint>\xff\xfe</LocationConstraint>", NULL},
};

static void reads_a_location(void **state)
{
    const struct location_row *row = *state;
    char location[S3_LOCATION_SIZE] = "untouched";
    struct error err = {0};

    const bool ok = s3_answer_location(bytes_of_text(row->xml), location, &err).ok;
    assert_int_equal(ok, row->location != NULL);
    assert_string_equal(location, row->location == NULL ? "untouched" : row->location);
    if (!ok) assert_int_equal(err.kind, ERROR_UNAVAILABLE);
}

static struct result count_listed(void *context, const struct s3_listed *listed, struct error *err)
{
    (void)err;
    *(uint64_t *)context += listed->size_bytes + 1000 * strlen(listed->key);
    return SUCCESS;
}

#define PAGE(inside) "<ListBucketResult xmlns=\"x\"><Name>b</Name><Prefix></Prefix>" inside "</ListBucketResult>"
#define OBJECT(key, size)                                                                                                    \
    "<Contents><Key>" key "</Key><LastModified>2026-11-20T10:39:46.123Z</LastModified><ETag>&quot;e&quot;</ETag><Size>" size \
    "</Size><Owner><ID>1</ID></Owner><StorageClass>STANDARD</StorageClass></Contents>"
static const struct page_row {
    const char *name, *xml;
    uint64_t sum;
    const char *next; /* NULL: refused */
} page_rows[] = {
    {"none", PAGE("<IsTruncated>false</IsTruncated>"), 0, ""},
    {"two", PAGE("<IsTruncated>false</IsTruncated>" OBJECT("abc", "5") OBJECT("x&amp;y", "7")), 6012, ""},
    {"and more", PAGE("<IsTruncated>true</IsTruncated><NextContinuationToken>a+/=</NextContinuationToken>" OBJECT("a", "1")),
     1001, "a+/="},
    {"more, but not where", PAGE("<IsTruncated>true</IsTruncated>" OBJECT("a", "1")), 1001, NULL},
    {"a token that is not needed", PAGE("<IsTruncated>false</IsTruncated><NextContinuationToken>a</NextContinuationToken>"), 0,
     ""},
    {"without a size", PAGE("<Contents><Key>a</Key></Contents>"), 0, NULL},
    {"a size that is none", PAGE(OBJECT("a", "-1")), 0, NULL},
    {"a time of another form", PAGE("<Contents><Key>a</Key><LastModified>yesterday</LastModified><Size>1</Size></Contents>"), 0,
     NULL},
    {"another answer", "<Error><Code>AccessDenied</Code></Error>", 0, NULL},
};

static void reads_a_page(void **state)
{
    const struct page_row *row = *state;
    struct buffer OWNED_BUFFER next = BUFFER(S3_TEXT_SIZE);
    struct error err = {0};
    uint64_t sum = 0;

    assert_int_equal(s3_answer_page(bytes_of_text(row->xml), count_listed, &sum, &next, &err).ok, row->next != NULL);
    assert_int_equal(sum, row->sum);
    if (row->next != NULL) assert_string_equal(buffer_text(&next), row->next);
}

static void reads_short_answers(void **state)
{
    struct buffer OWNED_BUFFER id = BUFFER(S3_TEXT_SIZE);
    struct s3_complaint complaint = {"x", "y"};
    struct error err = {0};

    (void)state;
    assert_true(
        s3_answer_upload_id(
            bytes_of_text(
                "<InitiateMultipartUploadResult><Bucket>b</Bucket><UploadId>a/b+c</UploadId></InitiateMultipartUploadResult>"),
            &id, &err)
            .ok);
    assert_string_equal(buffer_text(&id), "a/b+c");
    assert_false(s3_answer_upload_id(bytes_of_text("<InitiateMultipartUploadResult/>"), &id, &err).ok);
    assert_true(s3_answer_completed(
                    bytes_of_text("  <CompleteMultipartUploadResult><Key>a</Key></CompleteMultipartUploadResult>\n"), &err)
                    .ok);
    assert_false(s3_answer_completed(bytes_of_text("<Error><Code>InternalError</Code></Error>"), &err).ok);
    assert_false(s3_answer_completed(bytes_of_text(""), &err).ok);
    s3_answer_complaint(
        bytes_of_text(
            "<Error><Code>Slow\"Down</Code><Message>Please \\ wait&#10;</Message><Nested><Code>no</Code></Nested></Error>"),
        &complaint);
    assert_string_equal(complaint.code, "SlowDown");
    assert_string_equal(complaint.message, "Please  wait");
    s3_answer_complaint(bytes_of_text("<html>502"), &complaint);
    assert_string_equal(complaint.code, "");
}

static struct result read_any(void *context, struct error *err)
{
    struct buffer OWNED_BUFFER next = BUFFER(S3_TEXT_SIZE);
    uint64_t sum = 0;

    return s3_answer_page(bytes_of_text(context), count_listed, &sum, &next, err);
}

static void an_answer_may_lack_memory(void **state)
{
    (void)state;
    fail_each(read_any, (void *)(uintptr_t)page_rows[2].xml, ERROR_NO_MEMORY, 5);
}

/* ---- Heads ---- */

static const struct head_row {
    const char *name, *line, *etag;
    uint64_t whole;
} head_rows[] = {
    {"an etag", "ETag: \"9b2cf535f27731c974343645a3985328\"\r\n", "9b2cf535f27731c974343645a3985328", 0},
    {"of several parts", "etag:\"abc-12\"\r\n", "abc-12", 0},
    {"without quotes", "ETag: abc\r\n", "abc", 0},
    {"that would break XML", "ETag: \"a<b\"\r\n", "", 0},
    {"a weak one", "ETag: W/\"abc\"\r\n", "", 0},
    {"a range", "Content-Range: bytes 0-99/1234\r\n", "", 1234},
    {"a range without a whole", "Content-Range: bytes 0-99/*\r\n", "", 0},
    {"a range of nonsense", "Content-Range: bytes\r\n", "", 0},
    {"another field", "X-ETag: \"abc\"\r\n", "", 0},
    {"no field", "\r\n", "", 0},
};

static void reads_a_line(void **state)
{
    const struct head_row *row = *state;
    struct s3_answer answer = S3_ANSWER(1);

    s3_head_line(&answer, bytes_of_text(row->line));
    assert_string_equal(answer.etag, row->etag);
    assert_int_equal(answer.whole_bytes, row->whole);
}

/* ---- Keys ---- */

static const struct key_row {
    const char *name, *text, *id, *secret; /* id NULL: refused */
} key_rows[] = {
    {"two lines", "AKIA\nse+cr/et\n", "AKIA", "AWS4se+cr/et"},
    {"no last end of line", "AKIA\nsecret", "AKIA", "AWS4secret"},
    {"from Windows", "AKIA\r\nsecret\r\n", "AKIA", "AWS4secret"},
    {"more lines", "AKIA\nsecret\ncomment\n", "AKIA", "AWS4secret"},
    {"one line", "AKIA\n", NULL, NULL},
    {"nothing", "", NULL, NULL},
    {"a blank inside", "AK IA\nsecret\n", NULL, NULL},
    {"an id that ends its scope", "AK/IA\nsecret\n", NULL, NULL},
};

static void reads_a_key(void **state)
{
    const struct key_row *row = *state;
    struct s3_key key = {.secret = NULL};
    struct error err = {0};

    assert_int_equal(s3_key_parse(bytes_of_text(row->text), &key, &err).ok, row->id != NULL);
    if (row->id == NULL) {
        assert_int_equal(err.kind, ERROR_INVALID);
        assert_null(strstr(err.message, "secret\n"));
        return;
    }
    assert_string_equal(key.id, row->id);
    assert_true(bytes_equal(secret_bytes(key.secret), bytes_of_text(row->secret)));
    secret_free(key.secret);
}

static const struct no_network_row {
    const char *name, *text;
} no_network_rows[] = {
    {"no prefix", "10.0.0.0"},
    {"no address", "/8"},
    {"a name", "store.example/32"},
    {"too long a prefix", "10.0.0.0/33"},
    {"too long for IPv6", "::/129"},
    {"no number", "10.0.0.0/x"},
    {"bits behind", "10.0.0.1/8"},
    {"bits behind IPv6", "2001:db8::1/64"},
    {"three parts", "10.0.0/8"},
    {"much", "1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb/64"},
    {"the second", "10.0.0.0/8, x"},
    {"seventeen",
     "1.0.0.0/8 2.0.0.0/8 3.0.0.0/8 4.0.0.0/8 5.0.0.0/8 6.0.0.0/8 7.0.0.0/8 8.0.0.0/8 9.0.0.0/8 10.0.0.0/8 11.0.0.0/8 "
     "12.0.0.0/8 13.0.0.0/8 14.0.0.0/8 15.0.0.0/8 16.0.0.0/8 17.0.0.0/8"},
};

static void what_is_no_network_is_said(void **state)
{
    const struct no_network_row *row = *state;
    const struct s3_options options = {.endpoint = "https://s3.example",
                                       .bucket = "models",
                                       .location = "me-test-1",
                                       .access_key_file = "key",
                                       .ca_file = "",
                                       .networks = row->text};
    struct error err = {0};

    assert_false(s3_check_options(&options, &err).ok);
    assert_non_null(strstr(err.message, "endpoint_networks: "));
}

/* Whatever is drawn, and each wait up to the bound as likely as any other. */
static void pauses_are_of_any_length_up_to_a_bound_that_doubles(void **state)
{
    static const uint64_t bounds[] = {100, 200, 400, 800, 1600, 3200, S3_PAUSE_MAX_MS, S3_PAUSE_MAX_MS};

    (void)state;
    for (unsigned number = 0; number < sizeof bounds / sizeof bounds[0]; number++) {
        for (uint64_t drawn = 0; drawn <= bounds[number]; drawn++) assert_int_equal(s3_pause_ms(100, number, drawn), drawn);
        assert_int_equal(s3_pause_ms(100, number, bounds[number] + 1), 0);
    }
    assert_true(s3_pause_ms(UINT32_MAX, UINT32_MAX, UINT64_MAX) <= S3_PAUSE_MAX_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_canonical_request_is_as_published),
        cmocka_unit_test(a_signature_may_fail_anywhere),
        cmocka_unit_test(reads_short_answers),
        cmocka_unit_test(an_answer_may_lack_memory),
        cmocka_unit_test(pauses_are_of_any_length_up_to_a_bound_that_doubles),
    };

    return RUN_TABLE(sign_rows, signs_as_aws_says) + RUN_TABLE(location_rows, reads_a_location) +
           RUN_TABLE(page_rows, reads_a_page) + RUN_TABLE(head_rows, reads_a_line) + RUN_TABLE(key_rows, reads_a_key) +
           RUN_TABLE(no_network_rows, what_is_no_network_is_said) + cmocka_run_group_tests(tests, NULL, NULL);
}
