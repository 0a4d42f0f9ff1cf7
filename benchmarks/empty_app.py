"""What every page is compared with: a Streamlit app of a title, a choice and what was chosen."""

import streamlit as st

st.set_page_config(layout="wide")
st.title("empty")
st.text(", ".join(st.multiselect("Dataset", ["humaneval", "math"])) or "none")
