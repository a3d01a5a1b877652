/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"

/*
 * Labels and names are bytes from a disk; JSON is UTF-8.  A byte that is none
 * becomes U+FFFD.
 */
struct json_object *json_of_text(const char *text)
{
	size_t room = 3 * strlen(text) + 1;
	struct json_object *o;
	char *copy = malloc(room), *p = copy;

	if (!copy)
		return NULL;
	while (*text) {
		uint32_t code;
		size_t length = utf8_decode(text, &code);

		p = length ? mempcpy(p, text, length) : mempcpy(p, "\xef\xbf\xbd", 3);
		text += length ? length : 1;
	}
	o = json_object_new_string_len(copy, p - copy);
	free(copy);
	return o;
}

static void add_text(struct json_object *o, const char *key, const char *value)
{
	if (value[0])
		json_object_object_add(o, key, json_of_text(value));
}

static void add_number(struct json_object *o, const char *key, uint64_t value)
{
	json_object_object_add(o, key, json_object_new_uint64(value));
}

static void add_bool(struct json_object *o, const char *key, bool value)
{
	json_object_object_add(o, key, json_object_new_boolean(value));
}

static struct json_object *json_of_content(const struct dw_content *c)
{
	struct json_object *o = json_object_new_object();

	add_text(o, "type", c->type);
	add_text(o, "usage", c->usage);
	add_text(o, "uuid", c->uuid);
	add_text(o, "label", c->label);
	add_text(o, "version", c->version);
	if (c->size) {
		add_number(o, "size", c->size);
		add_number(o, "used", c->used);
		add_bool(o, "clean", c->clean);
	}
	if (c->guarded)
		add_bool(o, "guarded", true);
	add_text(o, "note", c->note);
	return o;
}

struct json_object *json_of_tree(const struct dw_node *n)
{
	static const char *const kinds[] = { "disk", "partition", "extended", "free" };
	struct json_object *o = json_object_new_object(), *children = NULL;
	char attributes[20];

	add_text(o, "node", n->address);
	add_text(o, "kind", kinds[n->kind]);
	add_number(o, "start", n->start);
	add_number(o, "length", n->length);
	if (n->kind == DW_NODE_DISK) {
		add_text(o, "table", n->table);
		add_text(o, "id", n->table_id);
		add_number(o, "sector_size", n->sector_size);
		add_text(o, "defect", n->defect);
	}
	if (n->kind == DW_NODE_PARTITION || n->kind == DW_NODE_EXTENDED) {
		add_number(o, "number", n->number);
		add_bool(o, "logical", n->logical);
		add_bool(o, "boot", n->boot);
		if (n->mbr_type)
			add_number(o, "mbr_type", n->mbr_type);
		add_text(o, "type_guid", n->type_guid);
		add_text(o, "guid", n->guid);
		add_text(o, "name", n->name);
		snprintf(attributes, sizeof(attributes), "%016llx", (unsigned long long)n->attributes);
		if (n->guid[0])
			add_text(o, "attributes", attributes);
		add_text(o, "in_use", n->mounted);
	}
	if (n->content.type[0] || n->content.note[0])
		json_object_object_add(o, "content", json_of_content(&n->content));
	if (n->child_count)
		json_object_object_add(o, "children", children = json_object_new_array());
	for (size_t i = 0; i < n->child_count; i++)
		json_object_array_add(children, json_of_tree(&n->children[i]));
	return o;
}

struct json_object *json_of_journal(const char *disk, const struct dw_journal_info *info)
{
	static const char *const states[] = {
		[DW_JOURNAL_NONE] = "none", [DW_JOURNAL_SEALED] = "sealed", [DW_JOURNAL_RUNNING] = "running",
		[DW_JOURNAL_FINALIZING] = "finalizing", [DW_JOURNAL_DONE] = "done",
		[DW_JOURNAL_ROLLING_BACK] = "rolling-back", [DW_JOURNAL_RESTORING] = "restoring",
		[DW_JOURNAL_ROLLED_BACK] = "rolled-back", [DW_JOURNAL_DAMAGED] = "damaged",
		[DW_JOURNAL_MISSING] = "missing",
	};
	struct json_object *o = json_object_new_object();

	add_text(o, "disk", disk);
	add_text(o, "state", states[info->state]);
	add_bool(o, "unfinished", info->unfinished);
	add_bool(o, "undoable", info->state == DW_JOURNAL_DONE);
	if (info->state == DW_JOURNAL_NONE)
		return o;
	add_text(o, "operation", info->operation);
	add_text(o, "journal", info->path);
	add_text(o, "uuid", info->uuid);
	add_bool(o, "undoing", info->undoing);
	add_number(o, "step", info->step);
	add_number(o, "steps", info->steps);
	add_number(o, "bytes", info->bytes);
	json_object_object_add(o, "sealed_at", json_object_new_int64(info->sealed_at));
	add_text(o, "done", info->done);
	add_text(o, "resume", info->next_resume);
	add_text(o, "rollback", info->next_rollback);
	return o;
}

struct json_object *json_of_finding(const struct dw_finding *finding)
{
	struct json_object *o = json_object_new_object();

	add_text(o, "severity", finding->error ? "error" : "warning");
	add_text(o, "node", finding->node);
	add_text(o, "text", finding->text);
	add_text(o, "remedy", finding->remedy);
	return o;
}

static void add_lines(struct json_object *o, const char *key, const char *const *lines, size_t count)
{
	struct json_object *list = json_object_new_array();

	for (size_t i = 0; i < count; i++)
		json_object_array_add(list, json_of_text(lines[i]));
	json_object_object_add(o, key, list);
}

struct json_object *json_of_plan(const struct dw_plan *plan)
{
	struct json_object *o = json_object_new_object();
	const char *const *lines;
	struct dw_plan_volume v;
	size_t count;

	dw_plan_volume(plan, &v);
	add_bool(o, "nothing_to_do", v.nothing);
	add_number(o, "bytes", v.data);
	add_number(o, "zero_bytes", v.zero);
	add_number(o, "journal_bytes", v.journal);
	lines = dw_plan_lines(plan, &count);
	add_lines(o, "steps", lines, count);
	lines = dw_plan_warnings(plan, &count);
	add_lines(o, "warnings", lines, count);
	json_object_object_add(o, "before", json_of_tree(dw_plan_before(plan)));
	json_object_object_add(o, "after", json_of_tree(dw_plan_after(plan)));
	return o;
}

struct json_object *json_of_failure(const char *node, const struct dw_report *report)
{
	struct json_object *o = json_object_new_object();

	add_text(o, "node", node);
	add_number(o, "status", report->status == DW_OK ? DW_FAILED : report->status);
	add_text(o, "error", report->message[0] ? report->message : "failed");
	add_text(o, "hint", report->hint);
	return o;
}

void json_print(struct json_object *object)
{
	printf("%s\n", json_object_to_json_string_ext(object, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(object);
}

void json_print_list(const char *name, struct json_object *list)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, name, list);
	json_print(o);
}
