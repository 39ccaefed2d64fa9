/* A report as one HTML page, for the screen and for paper, in English or in Arabic. */
#include <inttypes.h>
#include <string.h>

#include "crypto/digest.h"
#include "residency/residency_priv.h"

enum word {
#define WORD(constant, english, arabic) constant,
#include "residency/words.def"
    WORD_COUNT
};
static const char *const words[WORD_COUNT][RESIDENCY_LANGUAGES] = {
#define WORD(constant, english, arabic) [constant] = {english, arabic},
#include "residency/words.def"
};
static const struct title {
    const char *title[RESIDENCY_LANGUAGES], *what[RESIDENCY_LANGUAGES];
} titles[TABLE_COUNT] = {
#define TITLE(table, english, arabic, what, what_arabic) [table] = {{english, arabic}, {what, what_arabic}},
#include "residency/words.def"
};
static const struct page_column {
    enum residency_table table;
    const char *member, *title[RESIDENCY_LANGUAGES];
} columns[] = {
#define COLUMN(table, member, english, arabic) {table, member, {english, arabic}},
#include "residency/words.def"
};
#define COLUMNS (sizeof columns / sizeof columns[0])
static const struct page_value_word {
    enum residency_table table;
    const char *member, *value, *text[RESIDENCY_LANGUAGES];
} value_words[] = {
#define VALUE(table, member, value, english, arabic) {table, member, value, {english, arabic}},
#include "residency/words.def"
};
#define VALUE_WORDS (sizeof value_words / sizeof value_words[0])

static const char *const codes[RESIDENCY_LANGUAGES] = {"en", "ar"}, *const directions[RESIDENCY_LANGUAGES] = {"ltr", "rtl"};
static const char style[] =
    "@page{size:A4 landscape;margin:12mm}"
    "body{font:10pt/1.4 'Noto Sans','Noto Naskh Arabic',sans-serif;margin:1.5em;color:#111;background:#fff}"
    "h1{font-size:18pt;margin:0 0 .3em}h2{font-size:13pt;margin:1.4em 0 .2em;break-after:avoid}h2+p{break-after:avoid}p{margin:.2em 0 .5em}"
    ".statement{border:2px solid #111;padding:.5em .8em;font-weight:bold}"
    "table{border-collapse:collapse;width:100%;font-size:8pt}thead{display:table-header-group}tr{break-inside:avoid}"
    "th,td{border:1px solid #888;padding:.2em .35em;text-align:start;vertical-align:top}"
    ".long{overflow-wrap:anywhere}.short{white-space:nowrap}th{background:#eee}pre{direction:ltr;text-align:left;white-space:pre-wrap;overflow-wrap:anywhere;border:1px solid #888;padding:.5em}"
    "@media print{body{margin:0}a{color:inherit}}";

struct page {
    const json_t *report;
    enum residency_language language;
    char digest[DIGEST_TEXT_SIZE];
    struct buffer *text;
};

static const char *word_of(const struct page *page, enum word word)
{
    return words[word][page->language];
}

/* A value of the log, which is neither markup nor a part of the sentence around it. */
static struct result add_value(const struct page *page, const json_t *value, struct error *err)
{
    struct buffer OWNED_BUFFER shown = BUFFER(RESIDENCY_REPORT_MAX);

    if (json_is_boolean(value)) return page_text(word_of(page, json_is_true(value) ? WORD_YES : WORD_NO), page->text, err);
    TRY(page_value(value, &shown, err));
    return page_isolated(buffer_text(&shown), page->text, err);
}

/* ---- tables ---- */

static const char *member_of(const struct page *page, const struct page_column *column)
{
    const bool is_translated = column->table == TABLE_CONTROLS && strcmp(column->member, "title") == 0;

    return is_translated && page->language == RESIDENCY_ARABIC ? "title_ar" : column->member;
}

static struct result add_head_row(const struct page *page, enum residency_table table, struct error *err)
{
    TRY(buffer_add_text(page->text, "<table><thead><tr>", err));
    for (size_t i = 0; i < COLUMNS; i++) {
        if (columns[i].table != table) continue;
        TRY(buffer_add_text(page->text, "<th scope=\"col\">", err));
        TRY(page_text(columns[i].title[page->language], page->text, err));
        TRY(buffer_add_text(page->text, "</th>", err));
    }
    return buffer_add_text(page->text, "</tr></thead><tbody>\n", err);
}

/* Tables, by the titles that they have on the page. */
static struct result add_tables(const struct page *page, const json_t *names, struct error *err)
{
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));
        enum residency_table table = TABLE_PLACES;
        while (table < TABLE_COUNT && (name == NULL || strcmp(residency_table_name(table), name) != 0)) table++;
        if (i > 0) TRY(buffer_add_text(page->text, word_of(page, WORD_COMMA), err));
        if (table < TABLE_COUNT) TRY(buffer_add_text(page->text, titles[table].title[page->language], err));
        else TRY(add_value(page, json_array_get(names, i), err));
    }
    return SUCCESS;
}

static struct result add_cell(const struct page *page, const struct page_column *column, const json_t *value, struct error *err)
{
    const char *text = json_string_value(value);

    if (column->table == TABLE_CONTROLS && strcmp(column->member, "shown_by") == 0 && json_is_array(value))
        return add_tables(page, value, err);
    for (size_t i = 0; text != NULL && i < VALUE_WORDS; i++) {
        const struct page_value_word *word = &value_words[i];
        if (word->table == column->table && strcmp(word->member, column->member) == 0 && strcmp(word->value, text) == 0)
            return buffer_add_text(page->text, word->text[page->language], err);
    }
    return value == NULL ? SUCCESS : add_value(page, value, err);
}

static struct result add_row(const struct page *page, enum residency_table table, const json_t *row, struct error *err)
{
    TRY(buffer_add_text(page->text, "<tr>", err));
    for (size_t i = 0; i < COLUMNS; i++) {
        if (columns[i].table != table) continue;
        const json_t *value = json_object_get(row, member_of(page, &columns[i]));
        TRY(buffer_add_text(page->text, "<td>", err));
        TRY(add_cell(page, &columns[i], value, err));
        TRY(buffer_add_text(page->text, "</td>", err));
    }
    return buffer_add_text(page->text, "</tr>\n", err);
}

static struct result add_table(const struct page *page, enum residency_table table, struct error *err)
{
    const json_t *rows = json_object_get(page->report, residency_table_name(table));

    TRY(buffer_format(page->text, err, "<section id=\"%s\"><h2>%s</h2><p>%s</p>\n", residency_table_name(table),
                      titles[table].title[page->language], titles[table].what[page->language]));
    if (json_array_size(rows) == 0) return buffer_format(page->text, err, "<p>%s</p></section>\n", word_of(page, WORD_NONE));
    TRY(add_head_row(page, table, err));
    for (size_t i = 0; i < json_array_size(rows); i++) TRY(add_row(page, table, json_array_get(rows, i), err));
    return buffer_add_text(page->text, "</tbody></table></section>\n", err);
}

/* ---- the head and the foot ---- */

static struct result add_line(const struct page *page, enum word word, const json_t *value, struct error *err)
{
    TRY(buffer_format(page->text, err, "<tr><th scope=\"row\">%s</th><td>", word_of(page, word)));
    if (value != NULL) TRY(add_value(page, value, err));
    return buffer_add_text(page->text, "</td></tr>\n", err);
}

static struct result add_beginning(const struct page *page, struct error *err)
{
    const json_t *from = json_object_get(page->report, "from"), *value = json_object_get(from, "value");
    const char *unit = json_text_of(from, "unit");

    if (json_integer_value(value) == 0) return page_text(word_of(page, WORD_BEGINNING), page->text, err);
    if (unit != NULL && strcmp(unit, "time") == 0) {
        OWNED_JSON holder = json_object();
        if (holder == NULL) return residency_no_memory(err);
        TRY(residency_put_time(holder, "from", json_integer_value(value), err));
        return add_value(page, json_object_get(holder, "from"), err);
    }
    TRY(buffer_format(page->text, err, "%s ", word_of(page, WORD_NUMBER)));
    return add_value(page, value, err);
}

/* Each number has a line: in a row of three, Arabic readers would take the last one for the first. */
static struct result add_decisions(const struct page *page, struct error *err)
{
    const json_t *decisions = json_object_get(page->report, "decisions"), *first = json_object_get(decisions, "first");

    TRY(add_line(page, WORD_AGREE, json_object_get(decisions, "agree"), err));
    TRY(add_line(page, WORD_DIFFER, json_object_get(decisions, "differ"), err));
    TRY(add_line(page, WORD_IMPOSSIBLE, json_object_get(decisions, "not_replayable"), err));
    if (first == NULL) return SUCCESS;
    return add_line(page, WORD_FIRST, first, err);
}

/* Said only if it is so: nobody reads a zero. */
static struct result add_lacking(const struct page *page, struct error *err)
{
    const json_t *lacking = json_object_get(json_object_get(page->report, "decisions"), "lacking");

    return json_integer_value(lacking) == 0 ? SUCCESS : add_line(page, WORD_LACKING, lacking, err);
}

/* A report of one part does not say so. Each number has a line, as above. */
static struct result add_part(const struct page *page, struct error *err)
{
    const json_t *part = json_object_get(page->report, "part");

    if (part == NULL) return SUCCESS;
    TRY(add_line(page, WORD_PART, json_object_get(part, "number"), err));
    TRY(add_line(page, WORD_PARTS, json_object_get(part, "of"), err));
    return add_line(page, WORD_ROWS, json_object_get(part, "rows"), err);
}

static struct result add_summary(const struct page *page, struct error *err)
{
    const json_t *report = page->report, *proof = json_object_get(report, "proof");
    OWNED_JSON digest = json_string(page->digest);

    TRY(buffer_format(page->text, err, "<header><h1>%s</h1><p class=\"statement\">%s</p><table><tbody>\n",
                      word_of(page, WORD_REPORT), word_of(page, WORD_STATEMENT)));
    TRY(add_line(page, WORD_PROJECT, json_object_get(report, "project"), err));
    TRY(add_part(page, err));
    TRY(add_line(page, WORD_AT, json_object_get(report, "at_time"), err));
    TRY(buffer_format(page->text, err, "<tr><th scope=\"row\">%s</th><td>", word_of(page, WORD_FROM)));
    TRY(add_beginning(page, err));
    TRY(buffer_add_text(page->text, "</td></tr>\n", err));
    TRY(add_line(page, WORD_LOG, json_object_get(proof, "origin"), err));
    TRY(add_line(page, WORD_EVENTS, json_object_get(proof, "events"), err));
    TRY(add_line(page, WORD_CLOSING, json_object_get(proof, "closing"), err));
    TRY(add_decisions(page, err));
    TRY(add_lacking(page, err));
    TRY(add_line(page, WORD_DIGEST, digest, err));
    TRY(add_line(page, WORD_EVIDENCE, json_object_get(proof, "evidence"), err));
    return buffer_format(page->text, err, "</tbody></table><p>%s</p></header>\n", word_of(page, WORD_COMPLETE));
}

static struct result add_foot(const struct page *page, struct error *err)
{
    const char *note = json_text_of(json_object_get(page->report, "proof"), "checkpoint");

    TRY(buffer_format(page->text, err, "<footer><h2>%s</h2><pre>", word_of(page, WORD_CHECKPOINT)));
    TRY(page_lines(note == NULL ? "" : note, page->text, err));
    return buffer_format(
        page->text, err,
        "</pre><p>%s</p><pre>sijil-verify report --key VKEY --root ROOT.pem REPORT.json</pre></footer></body></html>\n",
        word_of(page, WORD_CHECK));
}

static struct result digest_of_report(const json_t *report, char digest_out[DIGEST_TEXT_SIZE], struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(RESIDENCY_REPORT_MAX);

    TRY(residency_write(report, &text, err));
    const struct digest digest = digest_of(DIGEST_SHA256, buffer_bytes(&text));
    digest_format(&digest, digest_out);
    return SUCCESS;
}

struct result residency_page(const json_t *report, enum residency_language language, struct buffer *text, struct error *err)
{
    struct page page = {.report = report, .language = language, .text = text};
    const char *project = json_text_of(report, "project");

    TRY(digest_of_report(report, page.digest, err));
    TRY(buffer_format(text, err,
                      "<!DOCTYPE html>\n<html lang=\"%s\" dir=\"%s\"><head><meta charset=\"utf-8\">"
                      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
                      "<meta name=\"sijil-report\" content=\"%s\"><title>%s ",
                      codes[language], directions[language], page.digest, word_of(&page, WORD_REPORT)));
    TRY(page_text(project == NULL ? "" : project, text, err));
    TRY(buffer_format(text, err, "</title><style>%s</style></head><body>\n", style));
    TRY(add_summary(&page, err));
    for (enum residency_table table = 0; table < TABLE_COUNT; table++) TRY(add_table(&page, table, err));
    return add_foot(&page, err);
}
