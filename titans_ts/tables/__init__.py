"""Tables in, tables out: every accepted layout to one Panel of series on a calendar, and forecasts back."""
